import { beforeEach, expect, test } from "vitest";
import { Operator } from "../../operator.ts";

let operator: Operator;

const list = () => operator.authorities();

beforeEach(async () => {
  const lengths = [
    'MAX_WORKLOAD_CERT_TTL = "24h"\nPROPAGATION_INTERVAL = "0s"\nAUTHORITY_LIFETIME = "720h"',
  ];
  operator = await Operator.create(new Date("2026-11-21T12:00:00Z"), ...lengths);
  await operator.authority("init", "--yes");
});

test("shows who signs, and from when the new one does, and changes nothing without an answer", async () => {
  const before = await list();
  const { message, exitCode } = await operator.refusal("rotate");
  const [signer, start, question, remedy] = message.split("\n");
  expect(signer).toBe(
    `${before[0]?.id.slice(0, 12)} signs now, until 2026-12-19 12:00Z at the latest.`,
  );
  expect(start).toMatch(
    /^A new authority is minted\. It is published from 2026-11-21 12:00Z, and signs from 2026-11-22 12:00Z until 2026-12-[0-9: ]+Z\.$/,
  );
  expect(question).toMatch(/^Rotate the files in .*store\?$/);
  expect(remedy).toBe("There is no terminal to ask on: add --yes");
  expect(exitCode).toBe(2);
  expect(await list()).toEqual(before);
});

test("mints with --yes, and says what to type next, on the same CA", async () => {
  const before = operator.terminal.said.length;
  await operator.authority("rotate", "--yes");
  const said = operator.terminal.said.slice(before);
  expect(said).toMatch(/^On the files in .*store:\n/);
  expect(said).toContain(`\nNext:\n  rampart authority plan --config ${operator.config}\n`);
  const phases = (await list()).map(({ phase, signs }) => `${phase} ${signs}`);
  expect(phases.toSorted()).toEqual(["published false", "signing true"]);
});

test("refuses a second one while the first waits, and asks nothing", async () => {
  await operator.authority("rotate", "--yes");
  const { message, exitCode } = await operator.refusal("rotate", "--yes");
  expect(message).toMatch(/^a successor is prepared: [0-9a-f]{12} signs from 2026-11-22 12:00Z$/);
  expect(exitCode).toBe(1);
});
