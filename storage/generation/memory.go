package generation

import "kedis/internal/hugepage"

// Memory makes the memory of chunks ahead, so that a writer, who holds a lock, doesn't wait for the
// kernel to find and clear it. It makes nothing before the first chunk is taken.
type Memory struct {
	ready chan []byte
	taken chan int // the size of one that was just taken
	pages hugepage.Choice
}

// spareChunks is how many chunks are made before they are needed.
const spareChunks = 4

// NewMemory returns a Memory for Provide to fill.
func NewMemory() *Memory {
	return &Memory{ready: make(chan []byte, spareChunks), taken: make(chan int, 1)}
}

// Provide makes what will be needed, until stop is closed.
func (m *Memory) Provide(stop <-chan struct{}) {
	for {
		select {
		case bytes := <-m.taken:
			m.fill(bytes)
		case <-stop:
			return
		}
	}
}

func (m *Memory) fill(bytes int) {
	for len(m.ready) < cap(m.ready) {
		select {
		case m.ready <- m.pages.Make(bytes):
		default:
			return
		}
	}
}

// makeAtOnce makes memory that is found and cleared as it is used.
func (m *Memory) makeAtOnce(bytes int) []byte {
	made := make([]byte, bytes)
	m.pages.Advise(made)
	return made
}

// take returns memory for a chunk of an ordinary size.
func (m *Memory) take(bytes int) []byte {
	defer m.ask(bytes)
	for {
		select {
		case made := <-m.ready:
			if len(made) == bytes {
				return made
			}
			// The size was another one then.
		default:
			return m.makeAtOnce(bytes)
		}
	}
}

// ask has Provide make more. It comes after taking a chunk, since Provide does nothing while there
// is enough.
func (m *Memory) ask(bytes int) {
	select {
	case m.taken <- bytes:
	default: // Provide has much to do
	}
}
