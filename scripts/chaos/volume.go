package main

type volume struct{}

func newVolume(string) (*volume, error) { return nil, nil }
func (v *volume) remove()               {}
