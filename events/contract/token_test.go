package contract

import "testing"

// TestTokens: a name comes back from its token, and what Token never writes is an error or a name as it is.
func TestTokens(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "aws", "aws_cf-eu11+eu+shared", "a.b c*>=\x00\xff", "ä"} {
		if back, err := FromToken(Token(name)); err != nil || back != name {
			t.Errorf("%q came back as %q, %v", name, back, err)
		}
	}
	for _, token := range []string{"a=", "a=4", "a=4G", "a=+4", "a=0x", "=ZZ"} {
		if name, err := FromToken(token); err == nil {
			t.Errorf("%q is taken for the name %q", token, name)
		}
	}
}
