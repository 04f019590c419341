package storage

// recycled holds a few objects that the running command uses, and the next one uses again.
type recycled[T any] struct {
	objects    [4]*T
	used, most int
}

// take returns an object, as it was left or new. Beyond the first few, all are new.
func (r *recycled[T]) take() *T {
	if r.used == len(r.objects) {
		return new(T)
	}
	if r.objects[r.used] == nil {
		r.objects[r.used] = new(T)
	}
	r.used++
	r.most = max(r.most, r.used)
	return r.objects[r.used-1]
}

// forget has empty forget what the objects that were used since refer to.
func (r *recycled[T]) forget(empty func(object *T)) {
	for _, object := range r.objects[:r.most] {
		empty(object)
	}
	r.used, r.most = 0, 0
}
