import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  createOperatorFolder,
  type OperatorFolder,
  rampartHere,
} from "../../../testkit/programs/command-line.ts";
import { type LoggedCa, startLoggedCa } from "../../../testkit/tlog/logged-ca.ts";

let folder: OperatorFolder;
let ca: LoggedCa;

const head = `[[ISSUERS]]
issuer = "https://cluster.test"
`;

const short = `[[POLICY.rules]]
name = "short"
when = { namespace = "foo", account = "bar" }
then = { maximum_life = "10m" }

[[POLICY.rules]]
name = "never"
when = { namespace = "pay" }
then = { deny = "closed" }
`;

const write = async (toml: string, name = "rampart.toml"): Promise<string> => {
  const file = join(folder.path, name);
  await writeFile(file, `${toml}\n${head}`);
  return file;
};

beforeAll(async () => {
  [folder, ca] = await Promise.all([
    createOperatorFolder(),
    startLoggedCa({
      values: { POLICY: { rules: [{ name: "new", shadow: true, then: { deny: "closed" } }] } },
    }),
  ]);
  for (const account of ["foo:bar", "foo:bar", "foo:other"]) await ca.issue(account);
  await ca.log.publish();
});

afterAll(() => ca.end());

const policy = (...words: readonly string[]) =>
  rampartHere(folder, `policy ${words.join(" ")}`, { RAMPART_LOG_TOKEN: ca.token });

const replay = async (toml: string, ...words: readonly string[]) =>
  policy("replay", await write(toml, "new.toml"), "--url", ca.url, ...words);

describe("rampart policy replay", () => {
  test("says of each rule what it would have done, for whom, and which are never used", async () => {
    const { code, stdout } = await replay(short);
    expect(stdout).toMatch(
      /^RULE +REQUESTS +DENIED +ALLOWED +SHORTENED +CHANGED +UNKNOWN +WORKLOADS$/m,
    );
    expect(stdout).toMatch(/^short +2 +0 +0 +2 +0 +0 +1$/m);
    expect(stdout).toMatch(/^ {2}short: entry 1: Kubernetes: foo\/bar, workload, shortened$/m);
    expect(stdout).toContain("Never used: never");
    expect(stdout).toContain("It would have changed 2 of 3 requests.");
    expect(code).toBe(3);
  });

  test("ends with 0 where nothing would change, and a rule in shadow changes nothing", async () => {
    const shadow = short.replace("when", "shadow = true\nwhen");
    const { code, stdout } = await replay(shadow, "--json");
    expect(JSON.parse(stdout)).toMatchObject({
      requests: 3,
      changes: 0,
      unused: ["never"],
      rules: [
        {
          rule: "short",
          isShadow: true,
          effects: { shortened: 2 },
          workloads: ["Kubernetes: foo/bar"],
        },
        { rule: "", requests: 3 },
      ],
    });
    expect(code).toBe(0);
  });

  test("sees what the default and the maximum of the configuration change", async () => {
    const { code, stdout } = await replay('MAX_WORKLOAD_CERT_TTL = "1h"\n', "--json");
    expect(code).toBe(3);
    expect(JSON.parse(stdout)).toMatchObject({ rules: [{ rule: "", effects: { shortened: 3 } }] });
  });

  test("reads only what is since an instant, in days as well", async () => {
    const { stdout } = await replay(short, "--since", "2099-01-01T00:00:00Z", "--json");
    expect(JSON.parse(stdout)).toMatchObject({ requests: 0, unused: ["short", "never"] });
    expect((await replay(short, "--since", "30days")).code).toBe(2);
  });

  test("finds in the audit trail what rules have refused", async () => {
    const asked = {
      cluster: "Kubernetes",
      issuer: "https://cluster.test",
      namespace: "pay",
      account: "till",
      caller: { namespace: "pay", account: "till" },
      proof: "token",
      product: "workload",
      requested: 0,
      key_type: "EC-P256",
    };
    const line = {
      time: new Date().toISOString(),
      event: "create-certificate",
      outcome: "refused",
      reason: "policy-denied",
      detail: "the rule x denies it: y",
      asked,
    };
    const file = join(folder.path, "audit.jsonl");
    await writeFile(
      file,
      `no JSON\nNov 23 rampart[1]: ${JSON.stringify(line)}\n{"policy-denied"\n`,
    );
    const { stdout } = await replay("", "--audit", file, "--json");
    expect(JSON.parse(stdout)).toMatchObject({
      requests: 4,
      changes: 1,
      rules: [{ effects: { allowed: 1 }, examples: [expect.stringContaining("line 2")] }],
    });
    const missing = await replay("", "--audit", join(folder.path, "nothing"));
    expect(missing).toMatchObject({ code: 1, stderr: expect.stringContaining("cannot be read") });
  });

  test("keeps in a copy what rules ask for, also where an older program made it", async () => {
    const dir = join(folder.path, "copy");
    await replay(short, "--dir", dir);
    const { DatabaseSync } = await import("node:sqlite");
    const database = new DatabaseSync(join(dir, "log.sqlite"));
    database.exec("DELETE FROM request WHERE idx > 1");
    database.close();
    const { stdout } = await policy("replay", await write(short, "new.toml"), "--dir", dir);
    expect(stdout).toContain("It would have changed 2 of 3 requests.");
  });

  test("refuses a contradiction with its line, and warns of a rule that never decides", async () => {
    const { code, stderr } = await replay(short.replace('"10m"', '"9000h"'));
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining("POLICY.rules[0].then.maximum_life: must not exceed"),
    ]);
    const warned = await replay(
      `${short}\n[[POLICY.rules]]\nname = "late"\nwhen = { namespace = "pay" }\n`,
    );
    expect(warned.stderr).toContain("POLICY.rules[2] (late) never decides: never before it fits");
  });
});

describe("rampart policy test", () => {
  const cases = (life: string) => `
[[POLICY.cases]]
asks = { namespace = "foo", account = "bar", requested = "24h" }
expect = { rule = "short", life = "${life}", denied = false }

[[POLICY.cases]]
asks = { namespace = "pay", account = "till" }
expect = { denied = true }

[[POLICY.cases]]
asks = { namespace = "foo", account = "other" }
expect = { rule = "" }
`;

  test("holds the rules to the cases beside them", async () => {
    const good = await policy("test", await write(short + cases("10m")));
    expect(good).toMatchObject({ code: 0, stdout: "Cases that hold: 3.\n" });
    const bad = await policy("test", await write(short + cases("1h")));
    expect(bad.code).toBe(1);
    expect(bad.stderr).toContain("POLICY.cases[0] (Kubernetes: foo/bar): life is 600, not 3600");
    expect((await policy("test", await write(short))).stderr).toContain("POLICY has no cases");
  });
});

describe("rampart policy explain", () => {
  test("says which rule decides, why, and what the answer would be", async () => {
    const config = await write(
      `${short}\n[[POLICY.rules]]\nname = "keys"\nshadow = true\nthen = { key_types = "RSA" }\n`,
    );
    const explain = (...words: readonly string[]) => policy("explain", "-c", config, ...words);
    const { code, stdout } = await explain("--namespace", "foo", "--account", "bar");
    expect([code, stdout]).toEqual([
      0,
      'The rule short decides, because it is for {"namespace":["foo"],"account":["bar"]}.\n  life: 600 s\n',
    ]);
    const denied = await explain("--namespace", "pay", "--account", "till", "--key-type", "RSA");
    expect(denied.stdout).toContain("  refused: the rule never denies it: closed");
    const other = await explain("--namespace", "foo", "--account", "other");
    expect(other.stdout).toBe(
      "No rule fits. The other keys of the configuration hold.\n  life: 86400 s\n" +
        "In shadow, the rule keys would decide:\n  refused: the rule keys allows no key of the type EC-P256\n",
    );
    const long = await explain("--namespace", "foo", "--account", "other", "--requested", "9000h");
    expect(long.stdout).toContain("  refused: nobody may ask for so long a life");
    const wrong = await explain("--namespace", "foo", "--account", "bar", "--proof", "password");
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining("--proof: must be")]);
  });

  test("answers for each issuer that may have vouched, as the CA would know of the request", async () => {
    const config = await write(`
      [[POLICY.rules]]
      name = "stolen"
      since = "2026-11-23T12:00:00Z"
      when = { node = "worker-3" }
      then = { deny = "rootkit" }
      [[POLICY.rules]]
      name = "named"
      when = { cluster = "beta", key_type = "EC-P256" }
      then = { dns_names = ["{account}.a.test"] }
      [[POLICY.cases]]
      asks = { namespace = "foo", account = "bar" }
      expect = { rule = "named" }
      [[POLICY.cases]]
      asks = { namespace = "foo", account = "bar", cluster = "gamma" }
      expect = { rule = "" }
      [[ISSUERS]]
      issuer = "https://beta.test"
      cluster = "beta"
      namespaces = ["foo"]
    `);
    const explain = async (namespace: string, ...words: readonly string[]) => {
      const asked = ["-c", config, "--namespace", namespace, "--account", "bar", ...words];
      const { stdout, stderr } = await policy("explain", ...asked);
      return stdout + stderr;
    };
    const none = "No rule fits. The other keys of the configuration hold.\n";
    const named = await explain("foo");
    expect(named).toMatch(/^beta: The rule named decides/);
    expect(named).toContain(`  DNS names: bar.a.test\nKubernetes: ${none}  life: 86400 s\n`);
    expect(await explain("other")).toBe(`${none}  life: 86400 s\n`);
    const token = ["--cluster", "beta", "--product", "token", "--audience", "vault"];
    expect(await explain("foo", ...token)).toBe(`${none}  life: 300 s\n`);
    expect(await explain("foo", "--proof", "certificate", "--node", "worker-9")).toContain(
      "the rule stolen denies it: nothing shows",
    );
    for (const wrong of [
      ["--cluster", "gamma"],
      ["--signer", "gamma"],
    ]) {
      expect(await explain("foo", ...wrong)).toContain("nobody can ask so");
    }
    expect((await policy("test", config)).stderr).toBe(
      'rampart: POLICY.cases[0] (Kubernetes: foo/bar): rule is "", not "named"\n' +
        "POLICY.cases[1] (foo/bar): nobody can ask so: ISSUERS or SIGNERS has no such table\n",
    );
  });

  test("complains of a configuration without rules, in which POLICY may be misspelt", async () => {
    const config = await write("[POLICIES]");
    const { code, stderr } = await policy("explain", "-c", config, "--namespace=a --account=b");
    expect([code, stderr]).toEqual([0, `rampart: ${config} has no POLICY\n`]);
  });

  test("says of a token for whom it may be, and its life, whatever the secrets of its CA", async () => {
    const config = await write(`
      JWT_ISSUER = "https://ca.test"
      MAX_JWT_TTL = "10m"
      [[POLICY.rules]]
      name = "cloud"
      when = { product = "token" }
      then = { audiences = ["sts.*"], default_life = "1h" }
      [[ISSUERS]]
      issuer = "https://other.test"
      jwt_audiences = ["*"]
    `);
    const explain = async (...audiences: readonly string[]) => {
      const asked = ["--namespace", "foo", "--account", "bar", "--product", "token"];
      return (await policy("explain", "-c", config, ...asked, "--audience", ...audiences)).stdout;
    };
    expect(await explain("sts.amazonaws.com")).toContain("  life: 600 s");
    expect(await explain("sts.amazonaws.com", "vault")).toContain("allows no such audience");
  });
});
