import { describe, expect, test } from "vitest";
import { caseRandom } from "./campaign/case-random.ts";
import { addResult, casesIn, failuresIn, type Job, jobsOf, type Totals } from "./campaign/jobs.ts";
import { judged } from "./campaign/judged.ts";
import { minimize } from "./campaign/minimize.ts";
import { parseOptions } from "./options.ts";
import { type Target, WrongAnswer } from "./targets/target.ts";
import { targetNames, targets } from "./targets/targets.ts";

describe.each(targetNames)("the target %s", async (name) => {
  const target = await targets[name]();
  const generate = (seed: number, caseNumber: number): string =>
    target.generate(caseRandom(seed, name, caseNumber)).toString("base64");

  test("makes the same input of the same seed and case, and others of another seed", () => {
    const inputs = (seed: number): string[] =>
      Array.from({ length: 40 }, (_, i) => generate(seed, i));
    expect(inputs(1)).toEqual(inputs(1));
    expect(inputs(1)).not.toEqual(inputs(2));
  });
});

describe("a case fails", () => {
  const target = (judge: Target["judge"]): Target => ({ generate: () => Buffer.alloc(0), judge });

  test.each([
    [
      "of a wrong answer",
      new WrongAnswer("case 12 was accepted"),
      "WrongAnswer: case N was accepted",
    ],
    ["of a fault", new TypeError("x is undefined"), "TypeError: x is undefined"],
  ])("because %s", async (_, error, fault) => {
    const failing = target(() => Promise.reject(error));
    expect(await judged(failing, Buffer.alloc(1))).toEqual({ fault, error });
  });

  test("because it takes too much CPU", async () => {
    let used = 0;
    const slow = target(async () => {
      used += 1001;
      return "accepted";
    });
    expect(await judged(slow, Buffer.alloc(1), () => used)).toMatchObject({
      fault: "WrongAnswer: takes more than N ms of CPU",
    });
  });

  test("only then", async () => {
    expect(
      await judged(
        target(async () => "refused"),
        Buffer.alloc(1),
      ),
    ).toEqual({ outcome: "refused" });
  });
});

test("a failing input is minimised to the octets that matter", async () => {
  const input = Buffer.from(`${"x".repeat(300)}A${"y".repeat(41)}B${"z".repeat(7)}`);
  const fails = async (octets: Buffer): Promise<boolean> => /A.*B/.test(octets.toString());
  expect((await minimize(input, fails)).toString()).toBe("AB");
});

test("a plan gives every target each of its cases once, in turns", () => {
  const plan = { seed: 1, count: 2100, targets: ["csr", "token"] as const };
  const jobs = [...jobsOf(plan)].map(({ target, from, until }) => `${target} ${from} ${until}`);
  const parts = ["0 500", "500 1000", "1000 1050"];
  expect(jobs).toEqual(parts.flatMap((part) => [`csr ${part}`, `token ${part}`]));
});

test("totals count cases and outcomes, and a fault once", () => {
  const totals: Totals = {};
  const job: Job = { seed: 1, target: "csr", from: 0, until: 10 };
  const failure = { fault: "WrongAnswer: x", caseNumber: 3, times: 2, input: "AA==" };
  addResult(totals, job, { outcomes: { accepted: 8 }, failures: [failure] });
  addResult(
    totals,
    { ...job, from: 10, until: 20 },
    { outcomes: { accepted: 9 }, failures: [{ ...failure, caseNumber: 11, times: 1 }] },
  );
  expect(casesIn(totals)).toBe(20);
  expect(totals.csr?.outcomes).toEqual({ accepted: 17 });
  expect(failuresIn(totals)).toEqual([{ ...failure, target: "csr", times: 3 }]);
});

describe("the command line", () => {
  test("takes a seed in hexadecimal, as a commit has it", () => {
    expect(parseOptions(["--seed", "0xff", "--count", "10"])).toMatchObject({
      seed: 255,
      count: 10,
    });
  });

  test.each([
    ["an unknown target", ["--target", "x"], "no target x"],
    ["a count that is no number", ["--count", "many"], "--count must be a whole number"],
    ["an empty seed", ["--seed", ""], "--seed must be a whole number"],
    ["a case without its target", ["--case", "1"], "--case needs one --target"],
    ["an unknown option", ["--cuont", "1"], "cuont"],
  ])("refuses %s", (_, words, reason) => {
    expect(() => parseOptions(words)).toThrow(reason);
  });
});
