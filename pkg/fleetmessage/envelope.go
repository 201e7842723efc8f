package fleetmessage

import (
	"encoding/json"
	"fmt"

	"github.com/nats-io/nkeys"
)

// MaxSize is the number of bytes of a message.
const MaxSize = 32 << 10

// Purposes of signatures. A signature for one purpose is invalid for another one.
const (
	purposeOrder  = "sluice.dev/fleet/order/v1\n"
	purposeAnswer = "sluice.dev/fleet/answer/v1\n"
	purposeBeat   = "sluice.dev/fleet/beat/v1\n"
)

// envelope is a message as it is sent: JSON, with byte strings in base64.
type envelope struct {
	// Key is the public nkey of the signer. It selects one of the keys that the receiver trusts.
	Key string `json:"key"`
	// Body is the JSON of an [Order] or an [Answer].
	Body []byte `json:"body"`
	// Signature is the Ed25519 signature over the purpose and the body.
	Signature []byte `json:"signature"`
}

// seal signs a body.
func seal(purpose string, key nkeys.KeyPair, content any) ([]byte, error) {
	body, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encode a message of the fleet: %w", err)
	}
	signature, err := key.Sign(append([]byte(purpose), body...))
	if err != nil {
		return nil, fmt.Errorf("sign a message of the fleet: %w", err)
	}
	public, err := key.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("sign a message of the fleet: %w", err)
	}
	message, err := json.Marshal(envelope{Key: public, Body: body, Signature: signature})
	if err != nil {
		return nil, fmt.Errorf("encode a message of the fleet: %w", err)
	}
	if len(message) > MaxSize {
		return nil, fmt.Errorf("a message of the fleet has %d bytes, and %d are possible", len(message), MaxSize)
	}
	return message, nil
}

// open checks the signature of a message, decodes its body, and returns the public key that has signed it. Fields that this version does not know are ignored.
func open(purpose string, trusted []string, message []byte, content any) (signer string, err error) {
	if len(message) > MaxSize {
		return "", refuse(ReasonMalformed, "it has %d bytes, and %d are possible", len(message), MaxSize)
	}
	var e envelope
	if err := json.Unmarshal(message, &e); err != nil {
		return "", refuse(ReasonMalformed, "it cannot be decoded: %v", err)
	}
	for _, key := range trusted {
		if key != e.Key {
			continue
		}
		public, err := nkeys.FromPublicKey(key)
		if err != nil {
			return "", refuse(ReasonUnknownKey, "the trusted key %s is not valid: %v", key, err)
		}
		if public.Verify(append([]byte(purpose), e.Body...), e.Signature) != nil {
			return "", refuse(ReasonBadSignature, "its signature by the key %s is wrong", key)
		}
		if err := json.Unmarshal(e.Body, content); err != nil {
			return "", refuse(ReasonMalformed, "its body cannot be decoded: %v", err)
		}
		return key, nil
	}
	return "", refuse(ReasonUnknownKey, "it is signed by the key %.60q, which is not trusted", e.Key)
}

// Reason is a word for the refusal of a message.
type Reason string

// Reasons of refusals.
const (
	// ReasonMalformed: the message cannot be decoded, is too large, or lacks a part.
	ReasonMalformed Reason = "Malformed"
	// ReasonUnknownKey: the receiver does not trust the key of the signer.
	ReasonUnknownKey Reason = "UnknownKey"
	// ReasonBadSignature: the signature does not belong to the message.
	ReasonBadSignature Reason = "BadSignature"
	// ReasonWrongHub: another hub has sent it.
	ReasonWrongHub Reason = "WrongHub"
	// ReasonWrongCluster: it is for, or from, a cluster of another name.
	ReasonWrongCluster Reason = "WrongCluster"
	// ReasonNameTaken: it is for, or from, another cluster of this name.
	ReasonNameTaken Reason = "NameTaken"
	// ReasonWrongRollout: it is about another Rollout than its subject says.
	ReasonWrongRollout Reason = "WrongRollout"
	// ReasonNotYours: another FleetRollout governs the Rollout.
	ReasonNotYours Reason = "NotYours"
	// ReasonClock: the clocks of the two clusters are too far apart.
	ReasonClock Reason = "Clock"
	// ReasonOld: it is older than the last one.
	ReasonOld Reason = "Old"
)

// Refusal is the error of a message that counts for nothing.
type Refusal struct {
	Reason Reason
	// Text says what is wrong.
	Text string
}

func (r *Refusal) Error() string { return "the message of the fleet is refused: " + r.Text }

func refuse(reason Reason, format string, args ...any) error {
	return &Refusal{reason, fmt.Sprintf(format, args...)}
}
