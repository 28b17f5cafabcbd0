package main

type proxy struct{}

func newProxy(string) (*proxy, error) { return nil, nil }
func (p *proxy) url() string          { return "" }
func (p *proxy) close()               {}
