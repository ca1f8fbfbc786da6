package letters

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/ledger/dead"
)

// TestDataOfLetter: JSON has every byte of a letter, also of one that is no text.
func TestDataOfLetter(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{"{}": `"data":"{}"}`, "\xfc": `"dataBase64":"/A=="}`} {
		text, err := json.Marshal(detailOf(dead.Letter{Data: []byte(data)}))
		if err != nil || !strings.HasSuffix(string(text), want) {
			t.Errorf("%q becomes %s, %v", data, text, err)
		}
	}
}
