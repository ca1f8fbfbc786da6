package rule

import (
	"fmt"
	"slices"

	"github.com/hap-worker/hap-worker/engine/document"
)

// Settings lists the keys below hap, and below hap.multiHyperscalerAccount, that package worker/config reads.
var Settings = map[string][]string{
	"hap": {
		"rule", KeyPlatformRegion, KeyClusterRegion, KeyShared, KeyEUAccess, "internalGlobalAccounts", accounts, "waiting", "plans",
	},
	accounts: {"allowedGlobalAccounts", "limits", "strategy"},
}

const accounts = "multiHyperscalerAccount"

// settings sets f.several and f.limits. It warns of keys below hap that workers refuse, and of limits of 0,
// which older brokers read differently.
func (f *File) settings(hap document.Object) {
	f.unread("hap", hap)
	n, ok := hap.Get(accounts)
	if !ok || !n.Mapping() {
		return
	}
	several, _ := n.Object()
	f.unread(accounts, several)
	if n, ok = several.Get("allowedGlobalAccounts"); ok && n.Sequence() {
		tenants, _ := n.List()
		f.several = len(tenants) > 0
	}
	n, ok = several.Get("limits")
	if !ok || !n.Mapping() {
		return
	}
	limits, _ := n.Object()
	for _, n := range limits.Fields {
		f.limits = append(f.limits, n.Name)
		if n.Name != DefaultLimit && n.Scalar() == 0 {
			f.warn("%s is 0, which is no limit here; an older broker takes limits.default for it: leave it out for that", n.Path)
		}
	}
}

func (f *File) unread(below string, o document.Object) {
	for _, n := range o.Fields {
		switch {
		case slices.Contains(Settings[below], n.Name):
		case n.Name == "minBindingsForGuard":
			f.warn("%s has no effect here, and a worker does not start with it; it guards an older broker against an empty database, "+
				"and workers count anew what Redis has lost before they decide: take it out", n.Path)
		default:
			f.warn("%s is no key of this product, and a worker does not start with it: take it out, or see docs/configuration.md for its name", n.Path)
		}
	}
}

func (f *File) warn(format string, args ...any) {
	f.Warnings = append(f.Warnings, Fault{Kind: Setting, Message: fmt.Sprintf(format, args...)})
}
