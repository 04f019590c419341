package command

import "testing"

// TestAccessesAreNotedWhenSomebodyAsks: not before OBJECT IDLETIME, or a policy that needs them,
// and no longer than that.
func TestAccessesAreNotedWhenSomebodyAsks(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	expect := func(noted bool, after string) {
		t.Helper()
		if engine.Store.Touches.Active() != noted {
			t.Errorf("after %s: %v", after, !noted)
		}
	}
	c.Do("SET", "k", "v")
	c.Do("GET", "k")
	c.Do("OBJECT", "FREQ", "k")
	c.Do("OBJECT", "ENCODING", "k")
	c.Do("OBJECT", "IDLETIME", "missing")
	expect(false, "others")
	if reply := c.Do("OBJECT", "IDLETIME", "k"); reply != ":0\r\n" {
		t.Errorf("%q", reply)
	}
	expect(true, "OBJECT IDLETIME")
	for _, test := range []struct {
		policy string
		noted  bool
	}{{"allkeys-lfu", true}, {"volatile-random", false}, {"allkeys-lru", true}, {"noeviction", false}} {
		c.Do("CONFIG", "SET", "maxmemory-policy", test.policy)
		expect(test.noted, test.policy)
	}
}
