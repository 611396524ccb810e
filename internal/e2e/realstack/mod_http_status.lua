-- Says on GET /status what every loaded module says of itself, host by host, as JSON.
-- http_status_allow_ips and http_status_allow_cidr name who may ask; other addresses get a 403.

module:set_global();
module:depends "http";

local ip = require "util.ip";
local json = require "util.json";
local datetime = require "util.datetime";
local modulemanager = require "core.modulemanager";

local allowed_ips = module:get_option_set("http_status_allow_ips", { "127.0.0.1", "::1" });
local allowed_cidr = module:get_option_string("http_status_allow_cidr");

local function may_ask(address)
	if allowed_ips:contains(address) then return true; end
	return allowed_cidr ~= nil and ip.match(ip.new_ip(address), ip.parse_cidr(allowed_cidr));
end

-- A module that has said nothing yet has an entry without fields.
local function describe(host)
	local described = {};
	for name, environment in pairs(modulemanager.get_modules(host) or {}) do
		local kind, message, changed = environment.module:get_status();
		described[name] = {
			type = kind;
			message = message;
			time = changed and datetime.datetime(math.floor(changed)) or nil;
		};
	end
	return described;
end

local function answer(event)
	if not may_ask(event.request.ip) then return 403; end
	local page = { ["*"] = describe("*") };
	for host in pairs(prosody.hosts) do page[host] = describe(host); end
	event.response.headers.content_type = "application/json";
	return json.encode(page);
end

module:provides("http", {
	default_path = "/status";
	route = { GET = answer };
});
