import { expect, test } from "vitest";
import { createWaitingRoom } from "../../../src/foundation/work/shared-work.ts";
import { refusalOf } from "../../testkit/refusal.ts";

const tooMany = { reason: "too-many-waiting" };

test("a part of a larger room takes no more places than either has", async () => {
  const whole = createWaitingRoom(3);
  const [one, other] = [createWaitingRoom(2, whole), createWaitingRoom(2, whole)];
  one.enter();
  one.enter();
  expect(await refusalOf(() => one.enter())).toEqual(tooMany);
  other.enter();
  expect(await refusalOf(() => other.enter())).toEqual(tooMany);
  one.leave();
  other.enter();
  expect(await refusalOf(() => other.enter())).toEqual(tooMany);
});

test("a request that the larger room refuses takes no place in the part", async () => {
  const whole = createWaitingRoom(1);
  const part = createWaitingRoom(1, whole);
  whole.enter();
  expect(await refusalOf(() => part.enter())).toEqual(tooMany);
  whole.leave();
  part.enter();
  expect(await refusalOf(() => whole.enter())).toEqual(tooMany);
});
