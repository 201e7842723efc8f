package health

import "net/http/pprof"

// EnableProfiling also serves /debug/pprof, for `go tool pprof`. A client that reaches the address can then slow the process down and read its
// internal state, so profiling is off by default. The caller must call it before Run.
func (s *Server) EnableProfiling() {
	s.mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	s.mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	s.mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
}
