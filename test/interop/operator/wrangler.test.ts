import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { Session } from "../../../src/cli/session/session.ts";
import { type Fault, startKvApi } from "../../testkit/network/kv-api.ts";
import { createCa, writeFolder } from "../../testkit/pki/plugged-in.ts";
import {
  type Answer,
  configureKeks,
  createKekEntry,
  createOperatorFolder,
  type OperatorFolder,
  rampart,
} from "../../testkit/programs/command-line.ts";
import { MemoryTerminal } from "../../testkit/programs/memory-terminal.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const timeoutMilliseconds = 600_000;

async function operatorFolder(toml?: string): Promise<OperatorFolder> {
  const folder = await createOperatorFolder(toml);
  onTestFinished(() => rm(folder.path, { recursive: true, force: true }));
  return folder;
}

/** A folder without the KEK, which comes from the environment for a deployed namespace. */
async function folderWithKek(
  toml?: string,
): Promise<[OperatorFolder, Readonly<Record<string, string>>]> {
  const folder = await operatorFolder(toml);
  const secrets = join(folder.path, ".dev.vars");
  const [, KEK = ""] = /KEK="(.*)"/.exec(await readFile(secrets, "utf8")) ?? [];
  await rm(secrets);
  return [folder, { KEK }];
}

/** Runs a verb that must succeed. */
function done({ code, stdout, stderr }: Answer): string {
  expect(stderr).not.toMatch(/^rampart: (?!still )/m);
  expect(code).toBe(0);
  return stdout;
}

/** Reads a store without the command line. */
async function contentOf({ config }: OperatorFolder): Promise<unknown> {
  let content: unknown;
  await Session.use(new MemoryTerminal(), { config }, async (session) => {
    const { authorities, additionalRoots, taints, refusals } = await Session.open(session);
    const byId = (a: { id: string }, b: { id: string }) => a.id.localeCompare(b.id);
    content = {
      authorities: authorities
        .map(({ id, certificate, schedule }) => ({ id, der: certificate.der, schedule }))
        .toSorted(byId),
      additionalRoots: additionalRoots.toSorted(byId),
      taints,
      refusals,
    };
  });
  return content;
}

const secret = { RAMPART_PASSPHRASE: "correct horse battery staple" };

test(
  "an operator founds a CA on this machine, rotates, taints, and restores a backup elsewhere",
  async () => {
    const [ours, theirs] = [await operatorFolder(), await operatorFolder()];
    const founded = done(await rampart(ours, "authority init --yes"));
    expect(founded).toMatch(/[0-9a-f]{12} +signing, now +EC-P256/);
    const [, id = ""] = /([0-9a-f]{12}) +signing/.exec(founded) ?? [];
    expect(done(await rampart(ours, "authority rotate --yes"))).toContain("published");
    const tainted = done(await rampart(ours, `authority taint ${id} --root with-last-leaf --yes`));
    expect(tainted).toMatch(/verifying, tainted/);
    const out = join(ours.path, "backup.age");
    done(await rampart(ours, `authority export --out ${out}`, secret));
    await configureKeks(theirs, createKekEntry(theirs, "elsewhere"));
    done(await rampart(theirs, `authority restore ${out} --yes`, secret));
    expect(await contentOf(theirs)).toEqual(await contentOf(ours));
  },
  timeoutMilliseconds,
);

test(
  "founds and taints in the deployed namespace, and sees its own writes before KV shows them",
  async () => {
    const [folder, kek] = await folderWithKek();
    const api = await startKvApi();
    const environment = { ...kek, ...api.environment };
    const founded = done(await rampart(folder, "authority init --yes --remote", environment));
    expect(founded).toMatch(/^Now in the deployed namespace:\n.*\n[0-9a-f]{12} +signing/);
    const [key = "", ...others] = api.written.keys();
    expect(others).toEqual([]);
    const [, id = ""] = /^authorities\/([0-9a-f]{40})$/.exec(key) ?? [];
    expect(JSON.parse(api.written.get(key) ?? "")).toMatchObject({ id, kek: "k1" });

    api.propagate();
    const words = `authority taint ${id.slice(0, 8)} --root immediately --yes --remote`;
    const tainted = done(await rampart(folder, words, environment));
    expect(tainted).toMatch(/retired, tainted/);
    expect(tainted).toMatch(/^[0-9a-f]{12} +signing/m);
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

interface Manifest {
  readonly kind: string;
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: {
    readonly jobTemplate: {
      readonly spec: { readonly template: { readonly spec: { readonly containers: Container[] } } };
    };
  };
}

interface Container {
  readonly args: readonly string[];
}

/** The configuration and the command of the job that deploy/ has. */
async function importJob(): Promise<{ readonly toml: string; readonly args: readonly string[] }> {
  const file = new URL("../../../deploy/kustomize/base/import/import.yaml", import.meta.url);
  const manifests = parseAllDocuments(await readFile(file, "utf8")).map(
    (document) => document.toJS() as Manifest,
  );
  const [toml = ""] = manifests.flatMap(({ data }) => Object.values(data ?? {}));
  const [args = []] = manifests.flatMap(({ spec }) =>
    (spec?.jobTemplate.spec.template.spec.containers ?? []).map((container) => container.args),
  );
  return { toml, args };
}

test(
  "the job of deploy/ imports a CA into the Worker's store",
  async () => {
    const { toml, args } = await importJob();
    const [folder, kek] = await folderWithKek(toml);
    const cacerts = await temporaryFolder();
    const words = args
      .join(" ")
      .replace("/etc/cacerts", cacerts)
      .replace("/etc/rampart/wrangler.toml", folder.config);
    expect(words).not.toContain("/etc/");
    const api = await startKvApi();
    const notAfter = new Date(Date.now() + 700 * 86_400_000);
    const ca = await createCa("O=company,CN=root", { notAfter });
    await writeFolder(cacerts, {
      "ca-cert.pem": ca.pem,
      "ca-key.pem": ca.keyPem,
      "cert-chain.pem": ca.pem,
      "root-cert.pem": ca.pem,
    });
    const imported = await rampart(folder, words, { ...kek, ...api.environment });
    expect(imported).toMatchObject({ code: 0, stdout: expect.stringMatching(/signing/) });
    expect([...api.written.keys()].filter((key) => key.startsWith("authorities/"))).toHaveLength(1);
  },
  timeoutMilliseconds,
);
