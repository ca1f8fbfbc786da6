package config

import (
	"net/url"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Hidden stands where a secret was.
const Hidden = "REDACTED"

// String is the effective configuration as YAML, secrets hidden.
func (c *Config) String() string { return string(c.Effective()) }

// Effective is the configuration as a YAML file with every key, in the order of
// the documentation, secrets hidden. Only the form of rules that is used is there.
func (c *Config) Effective() []byte {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, l := range leaves(c) {
		if hapRules[l.path] && (l.path == "hap.rule") != (c.HAP.Rule != nil) {
			continue
		}
		value := &yaml.Node{}
		if err := value.Encode(hide(l, l.plain())); err != nil {
			continue // texts, numbers, and lists and maps of these always encode
		}
		insert(root, strings.Split(l.path, "."), value)
	}
	content, err := yaml.Marshal(root)
	if err != nil {
		return nil
	}
	return content
}

func insert(section *yaml.Node, path []string, value *yaml.Node) {
	for ; len(path) > 1; path = path[1:] {
		var below *yaml.Node
		for i := 0; i+1 < len(section.Content); i += 2 {
			if section.Content[i].Value == path[0] {
				below = section.Content[i+1]
			}
		}
		if below == nil {
			below = &yaml.Node{Kind: yaml.MappingNode}
			section.Content = append(section.Content, name(path[0]), below)
		}
		section = below
	}
	section.Content = append(section.Content, name(path[0]), value)
}

func name(key string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: key} }

// hide takes the secrets out of a plain value. Where a file's name is expected
// and its contents stand, as happens with keys, these are hidden too.
func hide(l leaf, value any) any {
	if _, urls := reflect.TypeAssert[URLs](l.value); urls {
		l.secret = "url"
	}
	switch v := value.(type) {
	case string:
		if l.secret == "url" {
			return hideURL(v)
		}
		if inline(v) {
			return Hidden
		}
	case []string:
		hidden := make([]string, len(v))
		for i := range v {
			hidden[i], _ = hide(l, v[i]).(string)
		}
		return hidden
	case map[string]string:
		hidden := make(map[string]string, len(v))
		for key := range v {
			hidden[key] = Hidden
		}
		return hidden
	}
	return value
}

// inline recognises a PEM block, a .creds file or an nkey seed where a path should be.
func inline(text string) bool {
	return strings.Contains(text, "-----BEGIN") || strings.Contains(text, "\n") ||
		len(text) == 58 && text[0] == 'S' && !strings.ContainsAny(text, "/.")
}

// hideURL hides passwords, the tokens that NATS takes in place of a user, and
// parameters that are named like a secret. What is no URL is hidden whole.
func hideURL(text string) string {
	if text == "" {
		return ""
	}
	hostPort := !strings.Contains(text, "://")
	if hostPort {
		text = "//" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" {
		return Hidden
	}
	if u.User != nil {
		if _, has := u.User.Password(); has {
			u.User = url.UserPassword(u.User.Username(), Hidden)
		} else {
			u.User = url.User(Hidden)
		}
	}
	query := u.Query()
	for key := range query {
		if secretName(key) {
			query.Set(key, Hidden)
			u.RawQuery = query.Encode()
		}
	}
	shown := u.String()
	if hostPort {
		shown = strings.TrimPrefix(shown, "//")
	}
	return shown
}

func secretName(key string) bool {
	key = strings.ToLower(key)
	for _, word := range []string{"pass", "secret", "token", "key", "auth"} {
		if strings.Contains(key, word) {
			return true
		}
	}
	return false
}
