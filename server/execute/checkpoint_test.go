package execute

import (
	"strings"
	"testing"
)

func TestSaves(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	if err := engine.Config.SetFlag("dir", t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if !engine.saves.begin() {
		t.Fatal("a checkpoint is being made")
	}
	for _, request := range [][]string{{"SAVE"}, {"BGSAVE"}} {
		if reply := c.do(request...); reply != "-ERR Background save already in progress\r\n" {
			t.Errorf("%s while one is made: %q", request, reply)
		}
	}
	if got := c.info("rdb_bgsave_in_progress"); got != "1" {
		t.Errorf("rdb_bgsave_in_progress is %s", got)
	}
	if err := engine.makeCheckpoint(); err != nil {
		t.Fatal(err)
	}
	c.do("SET", "key", "value")
	if got := c.info("rdb_changes_since_last_save"); got != "1" {
		t.Errorf("rdb_changes_since_last_save is %s", got)
	}
	if reply := c.do("BGSAVE"); reply != "+Background saving started\r\n" {
		t.Errorf("BGSAVE: %q", reply)
	}
	engine.saves.running.Wait()
	if reply := c.do("SAVE"); reply != "+OK\r\n" {
		t.Errorf("SAVE: %q", reply)
	}
	for name, want := range map[string]string{"rdb_saves": "3", "rdb_last_bgsave_status": "ok", "rdb_bgsave_in_progress": "0",
		"rdb_changes_since_last_save": "0"} {
		if got := c.info(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if err := engine.Config.SetFlag("checkpoint-dir", "/dev/null/nothing"); err != nil {
		t.Fatal(err)
	}
	if reply := c.do("SAVE"); !strings.HasPrefix(reply, "-ERR the checkpoint could not be made: ") {
		t.Errorf("SAVE to nowhere: %q", reply)
	}
	if got := c.info("rdb_last_bgsave_status"); got != "err" {
		t.Errorf("rdb_last_bgsave_status is %s", got)
	}
}
