package health

import "net/http/pprof"

// EnableProfiling also serves /debug/pprof, for `go tool pprof`. Whoever reaches the address can then slow the process down and see
// what it works on, so that it is off unless it is asked for. It must be called before Run.
func (s *Server) EnableProfiling() {
	s.mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	s.mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	s.mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
}
