package commandline

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestProfiles(t *testing.T) {
	address := "127.0.0.1:" + free(t)
	s := start(t, t.TempDir(), "--pprof-address", address)
	answer, err := http.Get("http://" + address + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK || !strings.HasPrefix(string(page), "goroutine profile: ") {
		t.Errorf("%s: %.100s", answer.Status, page)
	}
	stop(t, s)
}
