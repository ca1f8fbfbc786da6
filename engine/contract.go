package engine

import "github.com/hap-worker/hap-worker/events/contract"

// What the engine shares with publishers is declared in package contract, which they import too. These are its names
// for this module; the table of the codes is only there.

// Code names what went wrong: see contract.Code.
type Code = contract.Code

// Error is an error that has a Code: see contract.Error.
type Error = contract.Error

// The codes that this module uses. contract.Codes says what each means.
const (
	CodeInvalidEvent     = contract.CodeInvalidEvent
	CodeNoMatchingRule   = contract.CodeNoMatchingRule
	CodeUnknownProvider  = contract.CodeUnknownProvider
	CodePoolExhausted    = contract.CodePoolExhausted
	CodeNetworkExhausted = contract.CodeNetworkExhausted
	CodeNoImplementation = contract.CodeNoImplementation
	CodeSuperseded       = contract.CodeSuperseded
	CodeUnknownRuntime   = contract.CodeUnknownRuntime
	CodeUnknownBinding   = contract.CodeUnknownBinding
	CodeBindingInUse     = contract.CodeBindingInUse
	CodeNotDirty         = contract.CodeNotDirty
	CodeStaleRelease     = contract.CodeStaleRelease
	CodeInternal         = contract.CodeInternal
)

// MaxID is the maximum length of a runtime, request or tenant id in bytes.
const MaxID = contract.MaxID

// CodeOf returns the code of the first Error in err's chain, as contract.CodeOf.
func CodeOf(err error) Code { return contract.CodeOf(err) }

// ValidID reports whether s can be a runtime, request or tenant id: see contract.ValidID.
func ValidID(s string) bool { return contract.ValidID(s) }

// Token writes a binding's or pool's name as one token of a subject or key: see contract.Token.
func Token(name string) string { return contract.Token(name) }

// FromToken returns the name that Token encoded, or an error if the token has an invalid escape.
func FromToken(token string) (string, error) { return contract.FromToken(token) }
