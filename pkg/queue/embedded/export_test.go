package embedded

// These are for the test that compares them with deploy/nats.
const (
	StreamsAccount = streamsAccount
	MemberAccount  = memberAccount
)
