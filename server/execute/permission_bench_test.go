package execute

import (
	"fmt"
	"testing"
)

// BenchmarkRights executes pipelines of 16 requests of clients with more and more to check: one
// that is no user, as the log's effects are, the default user, who may do everything, and users
// with rules.
func BenchmarkRights(b *testing.B) {
	engine, log := newTestEngine(b)
	log.Discard = true
	requests := make([][][]byte, 1000)
	for i := range requests {
		requests[i] = words("GET", fmt.Sprintf("key:%012d", i))
	}
	for _, user := range []struct {
		name  string
		rules []string
	}{
		{"nobody", nil},
		{"default", nil},
		{"commands", []string{"~*", "&*", "+@read", "+@write"}},
		{"keys", []string{"~key:*", "&*", "+@all"}},
		{"selectors", []string{"~other:*", "+@all", "(~more:* +@all)", "(%R~key:* +@read)"}},
	} {
		b.Run(user.name, func(b *testing.B) {
			s := engine.NewClient(Nowhere{})
			switch {
			case user.name == "nobody":
				s = NewSession(Nowhere{}, false)
			case user.rules != nil:
				if _, err := engine.Users.Set(user.name, append(user.rules, "on", "nopass")); err != nil {
					b.Fatal(err)
				}
				if !engine.SignIn(s, []byte(user.name), nil) {
					b.Fatal("the user doesn't come in")
				}
			}
			batch := engine.NewBatch(0)
			runPipelines(b, batch, s, requests, 1000)
			b.ReportAllocs()
			b.ResetTimer()
			runPipelines(b, batch, s, requests, b.N)
		})
	}
}
