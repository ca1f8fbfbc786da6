package gardener

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/hap-worker/hap-worker/engine"
)

// eventsAPI answers the requests of Note, and records them.
type eventsAPI struct {
	asked  []string // methods and paths
	bodies []string
	status map[string]int // by method, 200 for the others
	uid    string
}

func (a *eventsAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.Method != http.MethodGet && r.URL.Query().Get("fieldManager") != "hap-worker" {
		a.asked = append(a.asked, "does not say who writes")
	}
	a.asked = append(a.asked, r.Method+" "+r.URL.Path)
	a.bodies = append(a.bodies, string(body))
	w.Header().Set("Content-Type", "application/json")
	if status := a.status[r.Method]; status != 0 {
		w.WriteHeader(status)
		reason := map[int]string{http.StatusConflict: "AlreadyExists", http.StatusNotFound: "NotFound", http.StatusForbidden: "Forbidden"}[status]
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"details":{"name":"x"}}`, reason, status)
		return
	}
	fmt.Fprintf(w, `{"metadata":{"name":"x","uid":%q}}`, a.uid)
}

const (
	theBinding = "/apis/security.gardener.cloud/v1alpha1/namespaces/garden/credentialsbindings/aws-1"
	theEvents  = "/api/v1/namespaces/garden/events"
)

// TestNote: an Event names the binding with its uid, by which kubectl describe finds it. The count of
// a written Event is raised. An existing Event is no error. No request is repeated.
func TestNote(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.FixedZone("", 3600))
	note := engine.Note{Name: "aws-1.0f", Binding: "aws-1", Reason: engine.NoteClaimRefused, Message: "m", Count: 2, First: at, Last: at.Add(time.Minute)}
	written := note
	written.Written = true
	for name, c := range map[string]struct {
		note   engine.Note
		status map[string]int
		asked  []string
		fails  error
	}{
		"new":              {note, nil, []string{"GET " + theBinding, "POST " + theEvents}, nil},
		"another worker's": {note, map[string]int{"POST": 409}, []string{"GET " + theBinding, "POST " + theEvents}, nil},
		"again":            {written, nil, []string{"PATCH " + theEvents + "/aws-1.0f"}, nil},
		"forgotten":        {written, map[string]int{"PATCH": 404}, []string{"PATCH " + theEvents + "/aws-1.0f", "GET " + theBinding, "POST " + theEvents}, nil},
		"no right":         {note, map[string]int{"POST": 403}, []string{"GET " + theBinding, "POST " + theEvents}, engine.ErrRefused},
		"server fails":     {written, map[string]int{"PATCH": 503}, []string{"PATCH " + theEvents + "/aws-1.0f"}, engine.ErrUnknownResult},
		"the read fails":   {note, map[string]int{"GET": 503}, []string{"GET " + theBinding}, engine.ErrUnavailable},
		"no such binding":  {note, map[string]int{"GET": 404}, []string{"GET " + theBinding}, errMissing},
	} {
		api := &eventsAPI{status: c.status, uid: "u-1"}
		server := httptest.NewServer(api)
		client, err := New(&rest.Config{Host: server.URL}, Options{Namespace: "garden"})
		if err != nil {
			t.Fatal(err)
		}
		err = client.Note(t.Context(), c.note)
		client.Stop()
		server.Close()
		if !slices.Equal(api.asked, c.asked) || !errors.Is(err, c.fails) {
			t.Errorf("%s: asked %q, %v; want %q, %v", name, api.asked, err, c.asked, c.fails)
		}
		if name == "new" {
			expectEvent(t, api.bodies[1])
		}
		if body := api.bodies[0]; strings.HasPrefix(api.asked[0], "PATCH") && body != `{"count":2,"lastTimestamp":"2026-11-20T11:01:00Z"}` {
			t.Errorf("%s: the patch is %s", name, body)
		}
	}
}

func expectEvent(t *testing.T, body string) {
	t.Helper()
	const want = `{"apiVersion":"v1","kind":"Event","metadata":{"name":"aws-1.0f","namespace":"garden"},
		"involvedObject":{"apiVersion":"security.gardener.cloud/v1alpha1","kind":"CredentialsBinding","name":"aws-1","namespace":"garden","uid":"u-1"},
		"source":{"component":"hap-worker"},"reportingComponent":"hap-worker","type":"Warning","reason":"ClaimRefused","message":"m",
		"firstTimestamp":"2026-11-20T11:00:00Z","lastTimestamp":"2026-11-20T11:01:00Z","count":2}`
	var got, wanted any
	if err := errors.Join(json.Unmarshal([]byte(body), &got), json.Unmarshal([]byte(want), &wanted)); err != nil || !reflect.DeepEqual(got, wanted) {
		t.Errorf("%v; the event is\n%s, want\n%s", err, body, want)
	}
}
