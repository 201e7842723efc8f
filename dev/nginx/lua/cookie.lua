-- In place of resty.cookie, which Debian does not have: reads the cookies of a request, and adds one to its answer.
local cookie = {}
cookie.__index = cookie

function cookie:new()
  return setmetatable({}, cookie)
end

function cookie:get(name)
  return ngx.var["cookie_" .. name]
end

function cookie:set(of)
  local text = of.key .. "=" .. of.value
  if of.expires then text = text .. "; Expires=" .. of.expires end
  if of.max_age then text = text .. "; Max-Age=" .. of.max_age end
  if of.domain then text = text .. "; Domain=" .. of.domain end
  if of.path then text = text .. "; Path=" .. of.path end
  if of.secure then text = text .. "; Secure" end
  if of.httponly then text = text .. "; HttpOnly" end
  if of.samesite then text = text .. "; SameSite=" .. of.samesite end
  ngx.header["Set-Cookie"] = text
  return true
end

return cookie
