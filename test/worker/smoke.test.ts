import { exports } from "cloudflare:workers";
import { expect, test } from "vitest";

test("answers", async () => {
  const response = await exports.default.fetch(new Request("http://ca/healthz"));
  expect(await response.text()).toBe("ok\n");
  const ready = await exports.default.fetch(new Request("http://ca/readyz"));
  console.log(ready.status, await ready.text());
});
