package events

// ReadReply reads a message of the ledger, and returns why it cannot be read.
func ReadReply(subject string, data []byte) error {
	_, err := storedReply(StreamReplies, Message{Subject: subject, Sequence: 1, Data: data})
	return err
}
