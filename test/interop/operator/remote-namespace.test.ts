import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type Fault, startKvApi } from "../../testkit/network/kv-api.ts";
import {
  createOperatorFolder,
  type OperatorFolder,
  rampart,
} from "../../testkit/programs/command-line.ts";

const timeoutMilliseconds = 600_000;

/** A folder without the KEK, which comes from the environment for a deployed namespace. */
async function folderWithKek(): Promise<[OperatorFolder, Readonly<Record<string, string>>]> {
  const folder = await createOperatorFolder();
  onTestFinished(() => rm(folder.path, { recursive: true, force: true }));
  const secrets = join(folder.path, ".dev.vars");
  const [, KEK = ""] = /KEK="(.*)"/.exec(await readFile(secrets, "utf8")) ?? [];
  await rm(secrets);
  return [folder, { KEK }];
}

test(
  "founds and taints in the deployed namespace, and sees its own writes before KV shows them",
  async () => {
    const [folder, kek] = await folderWithKek();
    const api = await startKvApi();
    const environment = { ...kek, ...api.environment };
    const founded = await rampart(folder, "authority init --yes --remote", environment);
    expect(founded.stderr).not.toMatch(/^rampart: (?!still )/m);
    expect(founded.stdout).toMatch(/^Now in the deployed namespace:\n.*\n[0-9a-f]{12} +signing/);
    const [key = "", ...others] = api.written.keys();
    expect(others).toEqual([]);
    const [, id = ""] = /^authorities\/([0-9a-f]{40})$/.exec(key) ?? [];
    expect(JSON.parse(api.written.get(key) ?? "")).toMatchObject({ id, kek: "k1" });

    api.propagate();
    const words = `authority taint ${id.slice(0, 8)} --root immediately --yes --remote`;
    const tainted = await rampart(folder, words, environment);
    expect(tainted.code).toBe(0);
    expect(tainted.stdout).toMatch(/retired, tainted/);
    expect(tainted.stdout).toMatch(/^[0-9a-f]{12} +signing/m);
    expect([...api.written.keys()].map((name) => name.split("/")[0]).toSorted()).toEqual([
      "authorities",
      "authorities",
      "taints",
    ]);
    // The verb writes the taint before the next authority, so that it takes effect at once.
    expect(api.requests.filter((each) => each.startsWith("PUT"))[1]).toMatch(
      new RegExp(`^PUT /values/taints%2F${id}-`),
    );
  },
  timeoutMilliseconds,
);

const faults: Readonly<Record<string, Fault>> = {
  "no permission": {
    status: 403,
    body: JSON.stringify({
      success: false,
      errors: [{ code: 10000, message: "Authentication error" }],
      messages: [],
      result: null,
    }),
  },
  "an answer of another form": {
    status: 200,
    body: JSON.stringify({ success: true, errors: [], messages: [], result: [{ key: "a" }] }),
  },
};

test(
  "what is no answer of the namespace is told, and never taken for an empty store",
  async () => {
    const [folder, kek] = await folderWithKek();
    const listing = Object.entries(faults).map(async ([name, fault]) => {
      const { environment } = await startKvApi(fault);
      const answer = await rampart(folder, "authority list --remote", { ...kek, ...environment });
      return { name, ...answer };
    });
    for (const { name, code, stdout, stderr } of await Promise.all(listing)) {
      expect({ name, code, stdout }).toEqual({ name, code: 1, stdout: "" });
      expect(stderr).toMatch(/^rampart: .*wrangler/m);
      expect(stderr).not.toMatch(/^ +at /m);
      expect(stderr).not.toContain("\u001b");
    }
  },
  timeoutMilliseconds,
);
