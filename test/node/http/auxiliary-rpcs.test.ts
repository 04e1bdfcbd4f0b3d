import { expect, onTestFinished, test } from "vitest";
import { auxiliaryRpcs } from "../../../src/node/http/auxiliary-rpcs.ts";
import { partsOf } from "../../../src/node/http/routes.ts";
import { grpcFrame } from "../../contract/rpc-calls.ts";
import { origin } from "../../contract/service-under-test.ts";

test("a watch of health goes on when its timeout is longer than a timer runs", async () => {
  let isServing = true;
  const { forMonitoring } = auxiliaryRpcs(async () => isServing, "monitoring");
  const watch = forMonitoring.rpcs.get("/grpc.health.v1.Health/Watch");
  const caller = new AbortController();
  onTestFinished(() => caller.abort());
  const header = new Headers({ "content-type": "application/grpc", "grpc-timeout": "99999999H" });
  const response = await watch?.({
    httpVersion: "2.0",
    method: "POST",
    url: `${origin}/grpc.health.v1.Health/Watch`,
    header,
    headers: () => header,
    signal: caller.signal,
    body: async () => grpcFrame(new Uint8Array()),
  });
  const statuses = response && partsOf(response).body?.[Symbol.asyncIterator]();
  expect((await statuses?.next())?.value).toEqual(grpcFrame(new Uint8Array([0x08, 1])));
  isServing = false;
  expect((await statuses?.next())?.value).toEqual(grpcFrame(new Uint8Array([0x08, 2])));
});
