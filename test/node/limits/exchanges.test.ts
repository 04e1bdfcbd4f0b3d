import { expect, test } from "vitest";
import { type Exchange, Exchanges } from "../../../src/node/limits/exchanges.ts";
import { type Limit, usualLimits } from "../../../src/node/limits/limits.ts";

/** Exchanges under these limits, each of which records that it was refused. */
function start(limits: Partial<typeof usualLimits>) {
  const reached: Limit[] = [];
  const refused: string[] = [];
  const note = (limit: Limit) => void reached.push(limit);
  const exchanges = new Exchanges({ ...usualLimits, ...limits }, note, Date.now, () => false);
  const begin = (address: string) => {
    let isGone = false;
    const exchange: Exchange = {
      address,
      isReceiving: () => false,
      unsentOctets: () => 0,
      abort: () => {},
      refuse: () => {
        isGone = true;
        refused.push(address);
      },
      isGone: () => isGone,
    };
    const place = exchanges.begin(exchange);
    const hangUp = () => {
      isGone = true;
      place?.leave();
    };
    return { place, hangUp };
  };
  return { begin, refused, reached };
}

const never = () => new Promise<never>(() => {});

test("a call that finds the queue full of calls that were hung up is refused, and does not wait for ever", async () => {
  const { begin, refused, reached } = start({
    streams: 4,
    requests_at_work: 1,
    requests_at_work_per_address: 1,
  });
  void begin("a").place?.inTurn(never);
  for (let i = 0; i < 4; i++) {
    const { place, hangUp } = begin("a");
    void place?.inTurn(never);
    hangUp();
  }
  expect(await begin("a").place?.inTurn(never)).toBeUndefined();
  expect(refused).toEqual(["a"]);
  expect(reached).toEqual(["streams"]);
});

test("where all of the address with most is at work, the next one gives way, and not the newcomer", async () => {
  const { begin, refused } = start({ streams: 5 });
  const busy = [begin("x"), begin("x"), begin("x")];
  for (const { place } of busy) void place?.inTurn(never);
  await Promise.resolve();
  begin("y");
  begin("y");
  expect(begin("h").place).toBeDefined();
  expect(refused).toEqual(["y"]);
});

test("octets of the address with most that are at work cost others theirs before the newcomer's", async () => {
  const { begin, refused } = start({ request_memory: 1 });
  const x = begin("x");
  x.place?.hold(600_000);
  void x.place?.inTurn(never);
  await Promise.resolve();
  begin("y").place?.hold(440_000);
  begin("h").place?.hold(20_000);
  expect(refused).toEqual(["y"]);
});
