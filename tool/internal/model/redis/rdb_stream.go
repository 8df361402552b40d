package redis

// stream reads a stream in one of the three versions of its form.
func (r *reader) stream(version int) error {
	nodes, err := r.number()
	if err != nil {
		return err
	}
	var tree Counter
	packs := map[uint64]uint64{}
	for range nodes {
		key, err := r.blob(16)
		if err != nil {
			return err
		}
		if len(key) != 16 || !tree.Add(key) {
			return damaged("the nodes of a stream are not in order")
		}
		e, err := r.text()
		if err != nil {
			return err
		}
		packs[e.Len]++
	}
	count, err := r.number()
	if err != nil {
		return err
	}
	r.value.Count = count
	r.value.Stream(&tree, packs)
	rest := 2
	if version >= 2 {
		rest += 5
	}
	if err := r.lengths(rest); err != nil {
		return err
	}
	return r.groups(version)
}

// groups reads the consumer groups of a stream, which are left out of the model.
func (r *reader) groups(version int) error {
	count, err := r.number()
	if err != nil {
		return err
	}
	numbers := 2
	if version >= 2 {
		numbers++
	}
	for range count {
		if _, err := r.text(); err != nil {
			return err
		}
		if err := r.lengths(numbers); err != nil {
			return err
		}
		if err := r.pending(true); err != nil {
			return err
		}
		if err := r.consumers(version); err != nil {
			return err
		}
	}
	return nil
}

// pending reads ids that wait for their acknowledgement; details are time and count of deliveries.
func (r *reader) pending(details bool) error {
	count, err := r.number()
	if err != nil {
		return err
	}
	for range count {
		if err := r.skip(16); err != nil {
			return err
		}
		if !details {
			continue
		}
		if err := r.skip(8); err != nil {
			return err
		}
		if _, err := r.number(); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) consumers(version int) error {
	count, err := r.number()
	if err != nil {
		return err
	}
	times := uint64(8)
	if version >= 3 {
		times = 16
	}
	for range count {
		if _, err := r.text(); err != nil {
			return err
		}
		if err := r.skip(times); err != nil {
			return err
		}
		if err := r.pending(false); err != nil {
			return err
		}
	}
	return nil
}
