package eventstest

// Full has the data of an event of each type, by its name, and of a reply. They have every member.
var Full = map[string]string{
	"provision": `{"runtimeID":"rt-1","globalAccountID":"ga-1","plan":"aws","platformRegion":"cf-eu11","hyperscalerRegion":"eu-central-1",
		"provider":"aws","shootName":"c-3fa2","deadline":"2026-11-20T12:00:00Z","replyTo":"_INBOX.a.b",
		"cluster":{"name":"c","namespace":"n","labels":{"a":"b"},"purposes":["mcp"]},
		"interface":{"path":"cap.interface.x","revision":"0.1.0"}}`,
	"deprovision": `{"runtimeID":"rt-1","globalAccountID":"ga-1","shootName":"c-3fa2","replyTo":"_INBOX.a"}`,
	"release":     `{"binding":"aws-7","generation":3,"uid":"9a8f4a5e-6c1f-4b39-b6a2-3d0a3c1f7e11","replyTo":"_INBOX.a"}`,
	"resolve":     `{"runtimeID":"rt-1","globalAccountID":"ga-1","interface":{"path":"cap.interface.x","revision":"0.1.0"},"replyTo":"_INBOX.a"}`,
	"reply": `{"requestID":"req-1","runtimeID":"rt-1","status":"rejected","globalAccountID":"ga-1","plan":"aws","provider":"aws","shootName":"c-3fa2",
		"cluster":{"name":"c","namespace":"n","labels":{"a":"b"},"purposes":["mcp"]},
		"waiting":{"reason":"pool-empty","position":3,"deadline":"2026-11-20T12:00:00Z"},
		"binding":{"name":"aws-7","namespace":"garden-kyma","kind":"CredentialsBinding","hyperscalerType":"aws","shared":false,"euAccess":false,"claimed":true,"generation":3},
		"clusters":12,"limit":180,
		"decision":{"sequence":4711,"rule":"aws","ruleNumber":2,"pool":"aws+eu","labelSelector":"hyperscalerType=aws",
			"considered":[{"binding":"aws-3","clusters":180,"verdict":"at-limit","own":true}],
			"platformRegion":"cf-eu11","hyperscalerRegion":"eu-central-1","passed":[{"rule":"aws","ruleNumber":1,"why":"w"}],
			"origin":"claimed","strategy":"fill-first","attempts":[{"binding":"aws-7","result":"conflict"}],
			"times":{"published":"2026-11-20T12:00:00Z","began":"2026-11-20T12:00:00Z","waiting":"2026-11-20T12:00:00Z",
				"decided":"2026-11-20T12:00:00Z","claimed":"2026-11-20T12:00:00Z"},
			"changed":{"runtime":"waiting","account":"draining","superseded":"req-0","by":"/hapctl"}},
		"network":[{"rule":"mcp-clusters","id":"","cidr":"10.27.0.0/28","paths":["/spec/network/cidr"]}],"networkPending":true,
		"shootPatch":[{"op":"add","path":"/spec/network/cidr","value":"10.27.0.0/28"}],
		"shootMergePatch":{"spec":{"network":{"cidr":"10.27.0.0/28"}}},
		"implementation":{"path":"x","revision":"0.1.0","inject":[{"name":"gcp-sa","id":"9038"}]},
		"for":"deprovision","markedDirty":true,"draining":false,"error":{"code":"Internal","message":"m","retryable":false}}`,
}
