-- Measures what Prosody has no metrics for: logins, messages, presence, storage, HTTP, memory and CPU time.
-- The README beside this file defines each metric. For Prosody 0.12 and 13.

module:set_global();

local filters = require "util.filters";
local http_events = require "net.http.server"._events;
local modulemanager = require "core.modulemanager";
local monotonic = require "util.time".monotonic;
local statsmanager = require "core.statsmanager";
local timer = require "util.timer";

-- Families are global with a label for the host, so that one filter can serve all hosts.
local families = {};
local function metric(...)
	local family = module:metric(...);
	families[#families + 1] = family;
	return family;
end
local function counter(name, description, labels)
	return metric("counter", name, "", description, labels);
end
local host_label = { "host" };

local logins = {
	success = counter("c2s_auth_success", "Logins of clients that succeeded", host_label);
	failure = counter("c2s_auth_failure", "Logins of clients that failed", host_label);
};
local received = {
	message = counter("messages_received", "Messages received from clients", host_label);
	presence = counter("presence_received", "Presences received from clients", host_label);
};
local sent = {
	message = counter("messages_sent", "Messages sent to clients", host_label);
	presence = counter("presence_sent", "Presences sent to clients", host_label);
};
local operations = counter("storage_operations", "Operations on stores", host_label);
local errors = counter("storage_errors", "Operations on stores that ended in an error", host_label);

local connections = counter("c2s_connections", "Connections of clients that were accepted"):with_labels();
local requests = counter("http_requests", "HTTP requests that were taken up"):with_labels();
local durations = metric("histogram", "http_request_duration", "seconds",
	"Time from taking up an HTTP request to its answer", {}, { buckets = { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60 } }):with_labels();

--- Connections, messages and presence: every session of a client passes its stanzas through filters.

local logged_in = { c2s = true, c2s_unbound = true };

local function is_client(session)
	return type(session.type) == "string" and session.type:find("^c2s") ~= nil;
end

local function measured(host)
	local served = prosody.hosts[host];
	return served ~= nil and served.modules[module.name] ~= nil;
end

-- A session may also pass plain text. WebSocket and BOSH write the namespace, which others omit.
local function counting(by_name)
	return function (stanza, session)
		local family = by_name[stanza.name];
		if family and logged_in[session.type] and measured(session.host)
		and (stanza.attr.xmlns == nil or stanza.attr.xmlns == "jabber:client") then
			family:with_labels(session.host):add(1);
		end
		return stanza;
	end
end
local count_received, count_sent = counting(received), counting(sent);

-- Counts input before, and output after, all other filters, which may drop stanzas.
local function watch(session)
	if not is_client(session) then return; end
	filters.add_filter(session, "stanzas/in", count_received, 1000);
	filters.add_filter(session, "stanzas/out", count_sent, -1000);
end

local function leave(session)
	filters.remove_filter(session, "stanzas/in", count_received);
	filters.remove_filter(session, "stanzas/out", count_sent);
end

local function each_session(handle)
	for _, session in pairs(module:shared("/*/c2s/sessions")) do handle(session); end
	for _, session in pairs(prosody.full_sessions) do handle(session); end -- includes sessions without a connection
end

-- Called once for each accepted connection.
local function accept(session)
	if is_client(session) then connections:add(1); end
	watch(session);
end

filters.add_filter_hook(accept);
each_session(watch);

--- HTTP: every request fires at least one event, and ends with the response's method "done".

module:wrap_object_event(http_events, false, function (fire, name, event)
	local response = type(event) == "table" and event.response or nil;
	local request = response and response.request;
	if request and not request.measured_since then
		request.measured_since = monotonic();
		requests:add(1);
	end
	if request and response.done and not response.measured then
		local done = response.done;
		response.measured = true;
		function response.done(...)
			if not response.finished and not request.measured then
				request.measured = true;
				durations:sample(monotonic() - request.measured_since);
			end
			return done(...);
		end
	end
	return fire(name, event);
end);

--- The process

local cpu = metric("counter", "cpu_usage", "seconds", "CPU time of the process"):with_labels();

local function resident_bytes()
	local file = io.open("/proc/self/status");
	if not file then return nil; end
	local kilobytes = file:read("*a"):match("VmRSS:%s*(%d+) kB");
	file:close();
	return kilobytes and kilobytes * 1024;
end

-- Only Linux reports the size, so elsewhere the family is missing.
local memory = resident_bytes() and
	metric("gauge", "memory_usage", "bytes", "Resident memory of the process"):with_labels();

local function measure_process()
	cpu:set(os.clock());
	if memory then memory:set(resident_bytes() or 0); end
end
measure_process();
module:hook("stats-update", measure_process);

--- Storage: all stores of one driver and kind share a table of methods. The module opens one to find the table, and
--- wraps the methods to count them.

-- Conditions that do not count as errors.
local no_error = { ["item-not-found"] = true, ["quota-limit"] = true };
-- For each table of methods: the host, and the original methods.
local replaced = {};

local function replace(methods, host)
	local own = {};
	for name, method in pairs(methods) do
		if type(name) == "string" and type(method) == "function" then own[name] = method; end
	end
	replaced[methods] = { host = host, own = own };

	-- A method's calls on its own store belong to the same operation, so it gets a view with the original methods. A view
	-- refers to its store, so keys and values are weak: otherwise Lua 5.1 would never collect them.
	local views = setmetatable({}, { __mode = "kv" });
	local function uncounted(store)
		local view = views[store];
		if not view then
			view = setmetatable({}, { __newindex = store, __index = function (_, key)
				local value = store[key];
				if own[key] and value == methods[key] then return own[key]; end
				return value;
			end });
			views[store] = view;
		end
		return view;
	end

	local function count(family)
		if measured(host) then family:with_labels(host):add(1); end
	end
	local function note(ok, err, ...)
		if not ok and err ~= nil and not no_error[type(err) == "table" and err.condition or err] then count(errors); end
		return ok, err, ...;
	end
	for name, method in pairs(own) do
		methods[name] = function (store, ...)
			count(operations);
			return note(method(type(store) == "table" and uncounted(store) or store, ...));
		end
	end
end

local function opened(event)
	local store = event.store;
	-- Skips a store that combines others: the module counts those.
	if type(store) ~= "table" or rawget(store, "keyval_store") then return; end
	local metatable = getmetatable(store);
	local methods = metatable and metatable.__index;
	if type(methods) == "table" and not replaced[methods] then replace(methods, event.host); end
end

local function put_back()
	for methods, was in pairs(replaced) do
		for name, method in pairs(was.own) do methods[name] = method; end
	end
end

--- Prosody never drops a family, and a frozen counter looks like an idle server. So unloading the module removes its families,
--- and unloading it from a host removes the host's series. A failed reload unloads it too, which shows after the current event.

local function forget_all()
	local registry = statsmanager.get_metric_registry();
	local registered = registry and registry:get_metric_families() or {};
	for _, family in ipairs(families) do registered[family.family_name] = nil; end
	-- The hosts' parts no longer count, and loading the module again requires that all of them are unloaded.
	for host in pairs(prosody.hosts) do
		if modulemanager.is_loaded(host, module.name) then modulemanager.unload(host, module.name); end
	end
end

local function forget_host(host)
	for _, family in ipairs(families) do
		if #family.label_keys > 0 then family.data:remove(host); end
	end
end

local function unless_loaded(host, forget)
	timer.add_task(0, function ()
		if not modulemanager.is_loaded(host, module.name) then forget(host); end
	end);
end

--- Hosts

function module.add_host(module)
	local host = module.host;
	function module.unload() unless_loaded(host, forget_host); end
	operations:with_labels(host);
	errors:with_labels(host);
	module:hook("store-opened", opened);
	local stores = module:get_option("storage");
	for _, kind in ipairs { "keyval", "map", "archive" } do
		module:open_store("measure_chatstack", kind);
		for name in pairs(type(stores) == "table" and stores or {}) do module:open_store(name, kind); end
	end

	if module:get_host_type() ~= "local" then return; end
	for _, by_name in ipairs { logins, received, sent } do
		for _, family in pairs(by_name) do family:with_labels(host); end
	end
	for outcome, family in pairs(logins) do
		module:hook("authentication-" .. outcome, function (event)
			if event.session and is_client(event.session) then family:with_labels(host):add(1); end
		end, 1000);
	end
end

--- A reload keeps the counters and continues with the new code.

function module.save() return { replaced = replaced }; end

function module.restore(saved)
	for methods, was in pairs(saved.replaced or {}) do
		if not replaced[methods] then replace(methods, was.host); end
	end
end

function module.unload()
	filters.remove_filter_hook(accept);
	each_session(leave);
	put_back();
	unless_loaded("*", forget_all);
end
