package integration_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

var importedService = regexp.MustCompile(`\{service: \{account: (\w+), subject: "([^"]+)"\}\}`)

// TestNATSAccounts holds accounts.conf against permissions.conf and shadow.conf: a role
// imports what it has the right to publish on, and nothing else.
func TestNATSAccounts(t *testing.T) {
	t.Parallel()
	text := deployed(t, "accounts.conf")
	for _, role := range roles {
		_, block, ok := strings.Cut(text, "\n  HAP_"+role+" {")
		if !ok {
			t.Fatalf("accounts.conf has no account of %s", role)
		}
		block, _, _ = strings.Cut(block, "\n  }")
		var imports []string
		for _, found := range importedService.FindAllStringSubmatch(block, -1) {
			imports = append(imports, found[2])
		}
		allowed := rights(t, role)
		for _, subject := range imports {
			if !slices.ContainsFunc(allowed, func(right string) bool { return server.SubjectsCollide(right, subject) }) {
				t.Errorf("%s imports %s without the right to publish on it", role, subject)
			}
		}
		for _, right := range allowed {
			if right == "_INBOX.>" { // copies: the publishers import them
				continue
			}
			if !slices.ContainsFunc(imports, func(subject string) bool { return server.SubjectsCollide(right, subject) }) {
				t.Errorf("%s has the right to publish on %s, and no import", role, right)
			}
		}
		if !strings.Contains(block, `to: "$JS.API.INFO"`) {
			t.Errorf("%s has all of $JS.API: it lacks the import on $JS.API.INFO", role)
		}
	}
}
