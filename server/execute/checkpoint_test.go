package execute

import (
	"strings"
	"testing"
	"time"
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
	engine.saves.await(nil)
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

// TestSaveBehindAnother: SHUTDOWN SAVE waits for BGSAVE, and a stop doesn't for ever.
func TestSaveBehindAnother(t *testing.T) {
	engine, _ := newTestEngine(t)
	if err := engine.Config.SetFlag("dir", t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if !engine.saves.begin() {
		t.Fatal("a checkpoint is being made")
	}
	saved := make(chan error, 2)
	go func() { saved <- engine.SaveInTurn() }()
	select {
	case err := <-saved:
		t.Fatalf("it didn't wait: %v", err)
	case <-time.After(10 * time.Millisecond):
	}
	if err := engine.makeCheckpoint(); err != nil {
		t.Fatal(err)
	}
	if err := <-saved; err != nil || engine.Saves().Count != 2 {
		t.Errorf("%d checkpoints were made, %v", engine.Saves().Count, err)
	}
	engine.saves.begin()
	go func() { saved <- engine.SaveInTurn() }()
	close(engine.stopped)
	engine.Families.Stop()
	engine.loaders.stop()
	if err := <-saved; err != ErrStopping {
		t.Errorf("one that waits while the server stops: %v", err)
	}
	if engine.idle(time.Millisecond) {
		t.Error("nothing is waited for while a checkpoint is made")
	}
	engine.saves.end(0, nil)
	if !engine.idle(time.Minute) {
		t.Error("the checkpoint is waited for that is made")
	}
}
