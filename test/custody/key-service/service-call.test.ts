import { expect, test } from "vitest";
import { ServiceCall } from "../../../src/custody/key-service/service-call.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";

const start = new Date("2026-11-22T12:00:00Z");
const after = (seconds: number): Date => addSeconds(start, seconds);

test("a pass is used until a minute before its end, and no longer once it was refused", async () => {
  let made = 0;
  const obtain = ServiceCall.remembered(async () => ({ pass: `pass ${++made}`, seconds: 600 }));
  const passes: [number, boolean, string][] = [
    [0, false, "pass 1"],
    [539, false, "pass 1"],
    [540, false, "pass 2"],
    [541, true, "pass 3"],
    [542, false, "pass 3"],
    [1080, false, "pass 3"],
    [1081, false, "pass 4"],
  ];
  for (const [at, isRefused, pass] of passes) expect(await obtain(after(at), isRefused)).toBe(pass);
});

test("a pass without an end is obtained for each call", async () => {
  let made = 0;
  const obtain = ServiceCall.remembered(async () => ({ pass: ++made, seconds: 0 }));
  expect([await obtain(start), await obtain(start)]).toEqual([1, 2]);
  expect(ServiceCall.tokenIn({ access_token: "a" })).toEqual({ pass: "a", seconds: 0 });
});
