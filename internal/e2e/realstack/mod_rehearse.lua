-- Does what clients of a test cannot bring about, on all virtual hosts, when GET /rehearse asks for it.

module:set_global();
module:depends "http";

local modulemanager = require "core.modulemanager";
local st = require "util.stanza";

local function each_host(act)
	for host, served in pairs(prosody.hosts) do
		if served.type == "local" then act(host, served.events); end
	end
end

-- Each outcome of a login once for a client, and once for each of those that are none. A success always has a session.
local function logins()
	each_host(function (_, events)
		events.fire_event("authentication-failure", {});
		for _, outcome in ipairs { "success", "failure" } do
			for _, kind in ipairs { "http", "s2sin_unauthed", "component_unauthed", "admin", "c2s_unauthed" } do
				events.fire_event("authentication-"..outcome, { session = { type = kind, log = function () end } });
			end
		end
	end);
end

local function check(got, want)
	if got ~= want then error(("got %s, want %s"):format(tostring(got), tostring(want))); end
end

-- On an archive that holds two items at most: four operations, of which two do not get what they ask for, and no error.
local function archive()
	each_host(function (host)
		local store = module:context(host):open_store("rehearsal", "archive");
		local function append() return store:append("bob", nil, st.message(), 1, "carol@other.test"); end
		check(append() ~= nil, true);
		check(select(2, store:get("bob", "none")), "item-not-found");
		check(append() ~= nil, true);
		check(select(2, append()), "quota-limit");
	end);
end

-- On a map: one is written and one is read.
local function map()
	each_host(function (host)
		local store = module:context(host):open_store("rehearsed", "map");
		check(store:set("bob", "key", "value"), true);
		check(store:get("bob", "key"), "value");
	end);
end

-- The part of mod_measure_chatstack that is the second host's goes, and no other. The server's shell cannot do that.
local function unload_part()
	check(modulemanager.unload("other.test", "measure_chatstack"), true);
end

module:provides("http", {
	route = {
		["GET /logins"] = function () logins(); return 204; end;
		["GET /archive"] = function () archive(); return 204; end;
		["GET /map"] = function () map(); return 204; end;
		["GET /unload_part"] = function () unload_part(); return 204; end;
	};
});
