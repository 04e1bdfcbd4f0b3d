import { readdir, writeFile } from "node:fs/promises";
import { beforeEach, describe, expect, test } from "vitest";
import { denyCommand } from "../../../src/cli/verbs/deny.ts";
import { rootCommand } from "../../../src/cli/verbs/root.ts";
import { OperatorError } from "../../../src/foundation/errors.ts";
import { randomKek } from "../../testkit/configuration.ts";
import type { MemoryTerminal } from "../../testkit/programs/memory-terminal.ts";
import { eventually } from "../../testkit/time/eventually.ts";
import { Operator, storeToml } from "../operator.ts";

const now = new Date("2026-11-21T12:00:00Z");

let operator: Operator;

const deny = (...words: readonly string[]) => operator.run(denyCommand, words);
const list = async () => JSON.parse(await deny("list", "--json"));

beforeEach(async () => {
  operator = await Operator.founded(now, 'PROPAGATION_INTERVAL = "30s"');
});

describe("deny add", () => {
  test("lists the denial, and prints the lines of the configuration that state it", async () => {
    const told = await deny(
      ...["add", "node/worker-3", "--until", "12h", "--why", "kernel rootkit", "--yes"],
    );
    expect(told).toContain("Every process of the CA knows of it by 2026-11-21T12:00:30.000Z.");
    const denial = {
      subject: "node/worker-3",
      until: "2026-11-22T00:00:00.000Z",
      hasEnded: false,
      why: "kernel rootkit",
    };
    expect(await list()).toEqual([{ ...denial, stated: "store" }]);
    const lines = /^DENIED = \[\n[^\]]*\]$/m.exec(told)?.[0] ?? "";
    await operator.configure(lines);
    expect(await list()).toEqual([
      { ...denial, stated: "store" },
      { ...denial, stated: "configuration" },
    ]);
    expect(await deny("list")).toMatch(
      /^node\/worker-3 +configuration +2026-11-22 00:00Z +kernel/m,
    );
  });

  test("writes nothing, and lists nobody, with a KEK that opens no authority of the store", async () => {
    await deny("add", "ns/shop/sa/a", "--yes");
    const { terminal } = operator;
    const kek = terminal.environment["KEK"];
    terminal.setVariable("KEK", randomKek());
    const fault = /none opens with this KEK\. Compare KEK .*: nothing was written$/;
    await expect(deny("add", "ns/shop/sa/*", "--yes")).rejects.toThrow(fault);
    await expect(deny("remove", "ns/shop/sa/a", "--yes")).rejects.toThrow(fault);
    const { printed } = terminal;
    const unopened = "the store holds records that do not open: 2";
    await expect(deny("list")).rejects.toThrow(unopened);
    await expect(deny("list", "--json")).rejects.toThrow(unopened);
    await expect(operator.run(rootCommand, ["list"])).rejects.toThrow(unopened);
    expect(terminal.printed).toBe(printed);
    terminal.setVariable("KEK", kek);
    expect((await list()).map(({ subject }: { subject: string }) => subject)).toEqual([
      "ns/shop/sa/a",
    ]);
    // Beside a record that does not open, what does is listed.
    await writeFile(operator.file(`store/authorities/${"ab".repeat(20)}.json`), "{}");
    await expect(deny("list")).rejects.toThrow("records that do not open: 1");
    expect(terminal.printed).toMatch(/^ns\/shop\/sa\/a +store/m);
  });

  test("names no instant before one interval has passed since it was written", async () => {
    const at = new Date("2026-11-21T12:00:00.400Z");
    const clock = (): Date =>
      denying.said.includes("denial-added") ? new Date(at.getTime() + 7000) : at;
    const denying: MemoryTerminal = operator.terminalWith({ clock });
    expect(await operator.run(denyCommand, ["add", "ns/shop/sa/a", "--yes"], denying)).toContain(
      "knows of it by 2026-11-21T12:00:38.000Z.",
    );
  });

  test.each([
    ["again", ["--until", "12h"], ["--until", "12h"]],
    ["for a shorter time", ["--until", "12h"], ["--until", "1h"]],
    ["for a time beside a denial without an end", [], ["--until", "12h"]],
  ])("says that a subject is denied already, %s", async (_, first, second) => {
    await deny("add", "node/a", ...first, "--yes");
    const denials = await list();
    const told = await deny("add", "node/a", ...second, "--yes");
    expect(told).toMatch(/node\/a is denied already until .*: nothing was written/);
    expect(await list()).toEqual(denials);
    expect(await readdir(operator.file("store/denials"))).toHaveLength(1);
  });

  test("lists a subject once, until the end that comes last", async () => {
    await deny("add", "node/a", "--until", "1h", "--yes");
    await deny("add", "node/a", "--until", "12h", "--yes");
    expect(await list()).toMatchObject([{ until: "2026-11-22T00:00:00.000Z" }]);
    await deny("add", "node/a", "--yes");
    const [only, ...others] = await list();
    expect([only.until, others]).toEqual([undefined, []]);
  });

  test.each([
    ["ns/shop", [], /"ns\/shop" is none of spiffe:/],
    ["spiffe://other/ns/a/sa/b", [], /is not of this trust domain, cluster.local/],
    ["node/Worker 3", [], /is none of/],
    ["spiffe://Mesh.Test/ns/a/sa/b", [], /: a trust domain has lower-case letters$/],
    ["ns/a/sa/b", ["--until", "soon"], /--until "soon" is neither a duration/],
    ["ns/a/sa/b", ["--until", "2026-11-21T11:00:00Z"], /nor an instant to come/],
    ["ns/a/sa/b", ["--until", "2027"], /is neither a duration/],
    ["ns/a/sa/b", ["--until", "2027-02-30T12:00:00Z"], /is neither a duration/],
    ["ns/a/sa/b", ["--why", "two\nlines"], /--why must be one line/],
    ["ns/a/sa/b", ["--why", "x".repeat(201)], /at most 200 characters/],
  ])("refuses %s %j", async (subject, more, sentence) => {
    const adding = deny("add", subject, ...more, "--yes");
    await expect(adding).rejects.toThrow(sentence);
    await expect(adding).rejects.toBeInstanceOf(OperatorError);
    expect(await list()).toEqual([]);
  });

  describe("where issuers have clusters and namespaces", () => {
    const issuers = (): Promise<void> =>
      writeFile(
        operator.config,
        `${storeToml(operator.file("store"))}
cluster = "alpha"
cluster_aliases = ["old-alpha", "Kubernetes", "shared"]
namespaces = ["shop", "team-*"]

[[ISSUERS]]
issuer = "https://b.test"
cluster_aliases = ["shared"]
namespaces = ["shop"]
`,
      );

    test.each([
      ["cluster/old-alpha", "cluster/alpha"],
      ["cluster/alpha", "cluster/alpha"],
      ["cluster/Kubernetes", "cluster/Kubernetes"],
      ["issuer/https://a.test", "issuer/https://a.test"],
      [
        "token/JTI=7ee52be0-9045-4653-aa5e-0da57b8dccdc",
        "token/7ee52be0-9045-4653-aa5e-0da57b8dccdc",
      ],
      ["pod/2D5B7F6A-0F0E-4BB5-8A3F-6A0F2F3C4D21", "pod/2d5b7f6a-0f0e-4bb5-8a3f-6a0f2f3c4d21"],
      ["pod/2d5b7f6a0f0e4bb58a3f6a0f2f3c4d21", "pod/2d5b7f6a0f0e4bb58a3f6a0f2f3c4d21"],
      ["ns/team-a/sa/*", "ns/team-a/sa/*"],
      ["ns/*-a/sa/b", "ns/*-a/sa/b"],
      ["spiffe://cluster.local/ns/shop/sa/cart", "spiffe://cluster.local/ns/shop/sa/cart"],
    ])("takes %s as %s, and removes it by that name", async (typed, subject) => {
      await issuers();
      await deny("add", typed, "--yes");
      expect(await list()).toMatchObject([{ subject }]);
      await deny("remove", typed, "--yes");
      expect(await list()).toEqual([]);
    });

    test.each([
      ["cluster/Alpha", "no issuer of ISSUERS has the cluster Alpha: there are cluster/alpha"],
      ["cluster/beta", "has the cluster beta: there are cluster/alpha, cluster/Kubernetes"],
      ["cluster/shared", "has the cluster shared: there are cluster/alpha, cluster/Kubernetes"],
      ["issuer/https://a.test/", "the URL https://a.test/: there are issuer/https://a.test"],
      ["ns/pay/sa/x", "has the namespace pay: there are ns/shop, ns/team-*"],
      ["spiffe://cluster.local/ns/pay/sa/x", "has the namespace pay"],
      ["ns/pay*/sa/*", "has the namespace pay*"],
      ["pod/cart-7d4b9c6f5-x2x9k", "pod/cart-7d4b9c6f5-x2x9k has no UID, which `kubectl get pod"],
    ])("refuses %s, which is nobody's", async (typed, sentence) => {
      await issuers();
      await expect(deny("add", typed, "--yes")).rejects.toThrow(sentence);
      expect(await list()).toEqual([]);
    });
  });

  test("counts an end from the answer to its question", async () => {
    const slow = operator.terminalWith({ isTTY: true });
    const adding = operator.run(denyCommand, ["add", "node/a", "--until", "12h"], slow);
    await eventually(async () => expect(slow.said).toContain("[y/N]"));
    operator.now = new Date(now.getTime() + 3_600_000);
    slow.type("y\r");
    await adding;
    expect(await list()).toMatchObject([{ until: "2026-11-22T01:00:00.000Z" }]);
  });
});

describe("deny remove", () => {
  test("removes every denial of the subject, and no other", async () => {
    await deny("add", "ns/a/sa/b", "--until", "1h", "--yes");
    await deny("add", "ns/a/sa/b", "--yes");
    await deny("add", "ns/a/sa/c", "--yes");
    expect(await list()).toMatchObject([{ subject: "ns/a/sa/b" }, { subject: "ns/a/sa/c" }]);
    await deny("remove", "ns/a/sa/b", "--yes");
    expect(await list()).toMatchObject([{ subject: "ns/a/sa/c" }]);
    await expect(deny("remove", "ns/a/sa/b", "--yes")).rejects.toThrow(/nothing denies/);
  });

  test("says that the configuration still denies", async () => {
    await deny("add", "ns/a/sa/b", "--yes");
    await operator.configure('DENIED = ["ns/a/sa/b"]');
    expect(await deny("remove", "ns/a/sa/b", "--yes")).toContain("still denies ns/a/sa/b");
    await expect(deny("remove", "ns/a/sa/b", "--yes")).rejects.toThrow(
      /only DENIED of the configuration denies/,
    );
  });
});

test("a denial counts for every signer, and belongs into no signer's store", async () => {
  await expect(deny("add", "node/a", "--signer", "ingress", "--yes")).rejects.toThrow(
    /unknown option '--signer'/,
  );
});
