import { expect, onTestFinished, test } from "vitest";
import { auxiliaryRpcs } from "../../../src/node/http/auxiliary-rpcs.ts";
import { partsOf } from "../../../src/node/http/routes.ts";
import { grpcFrame } from "../../contract/rpc-calls.ts";
import { origin } from "../../contract/service-under-test.ts";

function start() {
  const state = { isServing: true };
  const ending = new AbortController();
  const { forMonitoring } = auxiliaryRpcs(
    async () => state.isServing && !ending.signal.aborted,
    "monitoring",
    ending.signal,
  );
  const watch = forMonitoring.rpcs.get("/grpc.health.v1.Health/Watch");
  const caller = new AbortController();
  onTestFinished(() => caller.abort());
  const header = new Headers({ "content-type": "application/grpc", "grpc-timeout": "99999999H" });
  const watchFrom = async (address: string) => {
    const response = await watch?.({
      httpVersion: "2.0",
      method: "POST",
      url: `${origin}/grpc.health.v1.Health/Watch`,
      header,
      headers: () => header,
      signal: caller.signal,
      body: async () => grpcFrame(new Uint8Array()),
      peer: { address },
    });
    const statuses = response && partsOf(response).body?.[Symbol.asyncIterator]();
    return { next: async () => statuses?.next(), end: async () => statuses?.return?.() };
  };
  return { state, ending, watchFrom };
}

const serving = grpcFrame(new Uint8Array([0x08, 1]));
const notServing = grpcFrame(new Uint8Array([0x08, 2]));

test("a watch of health goes on when its timeout is longer than a timer runs", async () => {
  const { state, watchFrom } = start();
  const watch = await watchFrom("192.0.2.1");
  expect((await watch.next())?.value).toEqual(serving);
  state.isServing = false;
  expect((await watch.next())?.value).toEqual(notServing);
});

test("a watch ends with the server, and says before that it serves no more", async () => {
  const { ending, watchFrom } = start();
  const watch = await watchFrom("192.0.2.1");
  expect((await watch.next())?.value).toEqual(serving);
  ending.abort();
  expect((await watch.next())?.value).toEqual(notServing);
  expect((await watch.next())?.done).toBe(true);
});

test("watches of one network are no more than are left for all others", async () => {
  const { watchFrom } = start();
  const firstOf = async (address: string) => (await (await watchFrom(address)).next())?.value;
  for (let i = 0; i < 16; i++) expect(await firstOf(`192.0.2.${i}`)).toEqual(serving);
  expect(await firstOf("192.0.2.200")).toBeUndefined();
  expect(await firstOf("198.51.100.1")).toEqual(serving);
});
