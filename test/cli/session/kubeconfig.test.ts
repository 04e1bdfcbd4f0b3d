import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { stringify } from "yaml";
import { childEnvironment } from "../../../src/cli/session/credential-plugin.ts";
import { readKubeconfig } from "../../../src/cli/session/kubeconfig.ts";
import { startConnectProxy } from "../../testkit/network/connect-proxy.ts";
import { startTlsServer, type TlsServer } from "../../testkit/network/loopback-tls.ts";
import { run } from "../../testkit/programs/child-process.ts";
import { program, runRampart } from "../../testkit/programs/rampart-process.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";

const vectors = "test/vectors/kubeconfig";

let folder: string;
let path: string;
let asked: (string | undefined)[];

beforeEach(async () => {
  folder = await lastingFolder();
  path = join(folder, "config");
  asked = [];
});

const startServer = (): Promise<TlsServer> =>
  startTlsServer((request, response) => {
    asked.push(request.url, request.headers.authorization);
    response.end('{"issuer":"x"}');
  });

const base64 = (text: string): string => Buffer.from(text).toString("base64");

/** Writes a kubeconfig that leads to a server, or has this cluster. */
async function write(to: TlsServer | object, user: object, more: object = {}): Promise<void> {
  const server =
    "origin" in to ? { server: to.origin, "certificate-authority-data": base64(to.ca) } : to;
  const config = {
    "current-context": "here",
    clusters: [
      { name: "c", cluster: server },
      {
        name: "elsewhere",
        cluster: { server: "https://insecure", "insecure-skip-tls-verify": true },
      },
    ],
    users: [{ name: "u", user }],
    contexts: [
      { name: "here", context: { cluster: "c", user: "u" } },
      { name: "there", context: { cluster: "elsewhere", user: "u" } },
    ],
    ...more,
  };
  await writeFile(path, stringify(config));
}

const plugin = (script: string) => ({
  exec: {
    apiVersion: "client.authentication.k8s.io/v1",
    command: process.execPath,
    args: ["-e", script],
  },
});

/** A plugin that gives the value of this expression as its token. */
const credentialOf = (expression: string) =>
  plugin(
    `console.log(JSON.stringify({ kind: "ExecCredential", status: { token: ${expression} } }))`,
  );

const login = (context?: string, environment = {}) => readKubeconfig(path, context, environment);

describe("a credential plugin", () => {
  test("gets the environment without the secrets of the CA", () => {
    const own = {
      KEK: "k1:secret",
      RAMPART_PASSPHRASE: "secret",
      CLUSTER_CREDENTIAL_A: "secret",
      CLUSTER_CREDENTIAL_A_FILE: "/run/token",
      PATH: "/bin",
    };
    expect(childEnvironment(own, { AWS_PROFILE: "mesh" })).toEqual({
      CLUSTER_CREDENTIAL_A_FILE: "/run/token",
      PATH: "/bin",
      AWS_PROFILE: "mesh",
    });
  });

  test("that a kubeconfig names sees no KEK", async () => {
    const user = credentialOf("String(process.env.KEK)");
    await write(await startServer(), user);
    await (await login(undefined, { KEK: "k1:secret" })).read("/version");
    expect(asked).toEqual(["/version", "Bearer undefined"]);
  });
});

describe("a kubeconfig", () => {
  test.each<[string, object]>([
    ["a token", { token: "secret" }],
    ["a token in a file, before one in the text", { tokenFile: "token", token: "other" }],
    ["a credential plugin", credentialOf('"secret"')],
  ])("leads to the cluster with %s", async (_, user) => {
    const { origin, ca } = await startServer();
    await writeFile(join(folder, "token"), "secret\n");
    await write({ server: `${origin}/`, "certificate-authority-data": base64(ca) }, user);
    const found = await login();
    expect(found).toMatchObject({ name: "here", server: origin, ca });
    expect(await found.read("/.well-known/openid-configuration")).toBe('{"issuer":"x"}');
    expect(asked).toEqual(["/.well-known/openid-configuration", "Bearer secret"]);
  });

  test("may name its CA in a file beside it", async () => {
    const { origin, ca } = await startServer();
    await writeFile(join(folder, "ca.crt"), ca);
    await write({ server: origin, "certificate-authority": "ca.crt" }, { token: "secret" });
    expect(await (await login("here")).read("/")).toBe('{"issuer":"x"}');
  });

  test("leads to an answer that breaks off: an OperatorError", async () => {
    const server = await startTlsServer((request, response) => {
      response.writeHead(200, { "content-length": "1000" });
      response.write("{", () => request.socket.destroy());
    });
    await write(server, { token: "secret" });
    const reading = (await login()).read("/");
    await expect(reading).rejects.toMatchObject({ name: "OperatorError" });
  });

  test.each<[string, object, object]>([
    ["a CA that is no certificate", { "certificate-authority-data": base64("none") }, {}],
    ["a token of several lines", {}, { token: "a\nb" }],
    ["a key that is none", {}, { "client-key-data": "YQ==", "client-certificate-data": "YQ==" }],
  ])("leads nowhere with %s: an OperatorError", async (_, server, user) => {
    await write({ server: "https://127.0.0.1:9", ...server }, user);
    const reading = (await login()).read("/");
    await expect(reading).rejects.toMatchObject({ name: "OperatorError" });
  });

  test("does not lead to a server with another certificate", async () => {
    const { origin } = await startServer();
    await write({ server: origin }, { token: "secret" });
    await expect((await login()).read("/")).rejects.toThrow(/certificate/);
    expect(asked).toEqual([]);
  });

  const cluster = { server: "https://a" };

  test.each<[string, () => Promise<void>, string | undefined]>([
    ["that is not there", async () => {}, undefined],
    ["that is no YAML", () => writeFile(path, "a: [secret"), undefined],
    ["that is a list", () => writeFile(path, "- secret"), undefined],
    ["without the context", () => write(cluster, {}), "nowhere"],
    ["with a cluster over http", () => write({ server: "http://a" }, {}), undefined],
    ["with a cluster that skips verification", () => write(cluster, {}), "there"],
    ["with a plugin that fails", () => write(cluster, plugin("process.exit(1)")), undefined],
    [
      "with other words of a plugin",
      () => write(cluster, plugin("console.log('secret')")),
      undefined,
    ],
  ])("is refused %s, without a secret in the words", async (_, prepare, context) => {
    await prepare();
    const reading = login(context);
    await expect(reading).rejects.toMatchObject({ name: "OperatorError" });
    await expect(reading).rejects.not.toThrow(/secret/);
  });

  test("is refused with every fault and its place", async () => {
    await write({ server: "http://a" }, {});
    await expect(login()).rejects.toThrow(`${path}: server: Invalid URL`);
  });
});

describe("a kubeconfig as client-go reads it", () => {
  /** Puts the files of test/vectors/kubeconfig beside each other. @param values In place of `$` and the name. */
  async function place(
    values: Readonly<Record<string, string>>,
  ): Promise<(name: string) => string> {
    for (const name of await readdir(vectors)) {
      const text = await readFile(join(vectors, name), "utf8");
      const filled = text.replace(/\$([A-Z]+)/g, (asItIs, key) => values[key] ?? asItIs);
      await writeFile(join(folder, name), filled, { mode: 0o755 });
    }
    return (name) => join(folder, name);
  }

  const placed = async () => {
    const { origin, ca } = await startServer();
    const { port } = new URL(origin);
    const proxy = await startConnectProxy({ "127.0.0.1": Number(port) });
    const values = { SERVER: origin, CA: base64(ca), PORT: port, PROXY: proxy.url };
    return { at: await place(values), origin, proxy };
  };

  test("is the files of KUBECONFIG together, of which the first that has something decides", async () => {
    const { at, origin } = await placed();
    const parts = ["clusters.yaml", "users.yaml", "contexts.yaml", "other.yaml"].map(at);
    const of = (...paths: readonly string[]) =>
      readKubeconfig(undefined, undefined, { KUBECONFIG: paths.join(":") });
    const found = await of(at("missing.yaml"), "", ...parts);
    expect(found).toMatchObject({ name: "prod", server: origin });
    await found.read("/version");
    expect(asked).toEqual(["/version", "Bearer secret"]);
    const other = { name: "other", server: "https://127.0.0.1:1" };
    expect(await of(at("other.yaml"), ...parts)).toMatchObject(other);
    const contexts = [{ name: "prod", context: { cluster: "c", user: "u" } }];
    const server = "https://127.0.0.1:2";
    await write({ server }, {}, { "current-context": "prod", contexts });
    expect(await of(path, ...parts)).toMatchObject({ name: "prod", server });
    const none = of(at("x"), at("y"));
    await expect(none).rejects.toThrow(`none of ${at("x")}, ${at("y")} exists`);
  });

  test("has the server judged by tls-server-name, be it a name or an address", async () => {
    const { at } = await placed();
    const path = at("server-name.yaml");
    expect(await (await readKubeconfig(path, undefined, {})).read("/")).toBe('{"issuer":"x"}');
    const text = await readFile(path, "utf8");
    for (const other of ["10.9.8.7", "kube.internal.example"]) {
      const named = text.replace("tls-server-name: 127.0.0.1", `tls-server-name: ${other}`);
      await writeFile(path, named);
      const reading = (await readKubeconfig(path, undefined, {})).read("/");
      await expect(reading).rejects.toThrow(/certificate/);
    }
  });

  test("leads through its proxy-url, also to this machine, and to no SOCKS", async () => {
    const { at, origin, proxy } = await placed();
    const through = await readKubeconfig(at("proxy.yaml"), undefined, {});
    expect(await through.read("/")).toBe('{"issuer":"x"}');
    expect(proxy.asked).toEqual([new URL(origin).host]);
    const text = await readFile(at("proxy.yaml"), "utf8");
    await writeFile(path, text.replace(proxy.url, "socks5://127.0.0.1:1"));
    await expect(login()).rejects.toThrow("SOCKS is not spoken");
  });

  test("has a plugin beside it run, which gets the cluster if it wants it", async () => {
    const { origin, ca } = await startServer();
    const script = `#!${process.execPath}
const { cluster } = JSON.parse(process.env.KUBERNETES_EXEC_INFO).spec;
console.log(JSON.stringify({ kind: "ExecCredential", status: { token: String(cluster?.config?.audience) + cluster?.server } }));`;
    await writeFile(join(folder, "plugin.cjs"), script, { mode: 0o755 });
    const name = "client.authentication.k8s.io/exec";
    const extensions = [{ name, extension: { audience: "prod@" } }];
    const cluster = { server: origin, "certificate-authority-data": base64(ca), extensions };
    for (const provideClusterInfo of [true, false]) {
      const exec = { apiVersion: "v1", command: "./plugin.cjs", provideClusterInfo };
      await write(cluster, { exec });
      await (await login()).read("/");
    }
    expect(asked.filter((each) => each?.startsWith("Bearer"))).toEqual([
      `Bearer prod@${origin}`,
      "Bearer undefinedundefined",
    ]);
  });

  test("names a plugin that is not installed, with its hint", async () => {
    const { at } = await placed();
    await expect(readKubeconfig(at("missing-plugin.yaml"), undefined, {})).rejects.toThrow(
      'the credential plugin "no-such-plugin" is not installed: get it at https://plugin.example',
    );
  });

  test("has a verb show what a plugin beside it writes on standard error", async () => {
    const { at } = await placed();
    const words = ["cluster", "enrol", "--kubeconfig", at("late-login.yaml"), "--name", "a"];
    const fault = await runRampart(words).catch(String);
    expect(fault).toContain("login timed out, run: example-cli login");
    expect(fault).toContain('the credential plugin "./late-login.sh" gave no credential');
  });

  test.each(["as", "as-groups", "username", "password", "auth-provider"])(
    "refuses %s by its name",
    async (key) => {
      await write({ server: "https://a" }, { token: "t", [key]: "x" });
      await expect(login()).rejects.toThrow(`${path}: ${key}: is not followed`);
    },
  );
});

test.skipIf(process.getuid?.() !== 0)(
  "a user without HOME and without an entry in passwd is told to name the file",
  async () => {
    const user = ["--reuid=54321", "--regid=54321", "--clear-groups", "env", "-u", "HOME"];
    const words = ["cluster", "enrol", "--name", "a"];
    const command = [process.execPath, program, ...words];
    const { exitCode, stderr } = await run("setpriv", [...user, ...command]);
    expect([exitCode, stderr.trim().split("\n").at(-1)]).toEqual([
      1,
      "rampart: there is no HOME with a kubeconfig: name the file in KUBECONFIG",
    ]);
  },
);
