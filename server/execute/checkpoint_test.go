package execute

import (
	"strings"
	"testing"
	"time"

	"kedis/internal/metrics"
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

// TestReopenBehindACheckpoint waits for the end of one, and of one that begins just then, while
// others run.
func TestReopenBehindACheckpoint(t *testing.T) {
	e, _ := newTestEngine(t)
	running := make(chan struct{})
	row := &Command{Name: "test", Arity: 1, Flags: Worker | NoBatch, Summary: "Reopens.", Group: "server", Since: "1.0.0", Run: func(c *Invocation) error {
		close(running)
		if err := c.Reopen(); err != nil {
			return err
		}
		c.Reply.OK()
		return nil
	}}
	e.Table.add(row)
	row.Measures = metrics.NewCommand(e.Statistics.Lanes)
	e.saves.begin()
	e.saves.making.Lock()
	reopened := make(chan string)
	go func() {
		s := NewSession(Nowhere{}, true)
		e.Work(s, read(e, s, "test"))
		reopened <- string(s.Reply.Bytes())
	}()
	<-running
	c := newTestClient(t, e)
	for range 100 {
		if reply := c.do("set", "key", "value"); reply != "+OK\r\n" {
			t.Fatalf("SET: %q", reply)
		}
		time.Sleep(100 * time.Microsecond)
	}
	e.saves.end(0, nil)
	e.saves.begin()
	select {
	case reply := <-reopened:
		t.Fatalf("it was reopened while a checkpoint is made: %q", reply)
	case <-time.After(10 * time.Millisecond):
	}
	e.saves.making.Unlock()
	e.saves.end(0, nil)
	select {
	case reply := <-reopened:
		if reply != "+OK\r\n" {
			t.Errorf("the command: %q", reply)
		}
	case <-time.After(time.Minute):
		t.Fatal("it is never reopened")
	}
	if reply := c.do("get", "key"); reply != "$5\r\nvalue\r\n" {
		t.Errorf("GET: %q", reply)
	}
}
