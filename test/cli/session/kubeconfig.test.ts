import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { stringify } from "yaml";
import { childEnvironment, readKubeconfig } from "../../../src/cli/session/kubeconfig.ts";
import { startTlsServer, type TlsServer } from "../../testkit/network/loopback-tls.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";

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

async function write(server: object, user: object, more: object = {}): Promise<void> {
  const config = {
    "current-context": "here",
    clusters: [
      { name: "c", cluster: server },
      {
        name: "elsewhere",
        cluster: { server: "http://insecure", "insecure-skip-tls-verify": true },
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
    const script = `console.log(JSON.stringify({ kind: "ExecCredential", status: { token: String(process.env.KEK) } }))`;
    const { origin, ca } = await startServer();
    const user = {
      exec: {
        apiVersion: "client.authentication.k8s.io/v1",
        command: process.execPath,
        args: ["-e", script],
      },
    };
    await write({ server: origin, "certificate-authority-data": base64(ca) }, user);
    await (await readKubeconfig(path, undefined, { KEK: "k1:secret" })).read("/version");
    expect(asked).toEqual(["/version", "Bearer undefined"]);
  });
});

describe("a kubeconfig", () => {
  const plugin = (script: string) => ({
    exec: {
      apiVersion: "client.authentication.k8s.io/v1",
      command: process.execPath,
      args: ["-e", script],
    },
  });
  const credential = { kind: "ExecCredential", status: { token: "secret" } };

  test.each<[string, object]>([
    ["a token", { token: "secret" }],
    ["a token in a file", { tokenFile: "token" }],
    ["a credential plugin", plugin(`console.log('${JSON.stringify(credential)}')`)],
  ])("leads to the cluster with %s", async (_, user) => {
    const { origin, ca } = await startServer();
    await writeFile(join(folder, "token"), "secret\n");
    await write({ server: `${origin}/`, "certificate-authority-data": base64(ca) }, user);
    const login = await readKubeconfig(path, undefined, {});
    expect(login).toMatchObject({ name: "here", server: origin, ca });
    expect(await login.read("/.well-known/openid-configuration")).toBe('{"issuer":"x"}');
    expect(asked).toEqual(["/.well-known/openid-configuration", "Bearer secret"]);
  });

  test("may name its CA in a file beside it", async () => {
    const { origin, ca } = await startServer();
    await writeFile(join(folder, "ca.crt"), ca);
    await write({ server: origin, "certificate-authority": "ca.crt" }, { token: "secret" });
    expect(await (await readKubeconfig(path, "here", {})).read("/")).toBe('{"issuer":"x"}');
  });

  test("leads to an answer that breaks off: an OperatorError", async () => {
    const { origin, ca } = await startTlsServer((request, response) => {
      response.writeHead(200, { "content-length": "1000" });
      response.write("{", () => request.socket.destroy());
    });
    await write({ server: origin, "certificate-authority-data": base64(ca) }, { token: "secret" });
    const reading = (await readKubeconfig(path, undefined, {})).read("/");
    await expect(reading).rejects.toMatchObject({ name: "OperatorError" });
  });

  test.each<[string, object, object]>([
    ["a CA that is no certificate", { "certificate-authority-data": base64("none") }, {}],
    ["a token of several lines", {}, { token: "a\nb" }],
    ["a key that is none", {}, { "client-key-data": "YQ==", "client-certificate-data": "YQ==" }],
  ])("leads nowhere with %s: an OperatorError", async (_, server, user) => {
    await write({ server: "https://127.0.0.1:9", ...server }, user);
    const reading = (await readKubeconfig(path, undefined, {})).read("/");
    await expect(reading).rejects.toMatchObject({ name: "OperatorError" });
  });

  test("does not lead to a server with another certificate", async () => {
    const { origin } = await startServer();
    await write({ server: origin }, { token: "secret" });
    const login = await readKubeconfig(path, undefined, {});
    await expect(login.read("/")).rejects.toThrow(/certificate/);
    expect(asked).toEqual([]);
  });

  test.each<[string, () => Promise<void>, string | undefined]>([
    ["that is not there", async () => {}, undefined],
    ["that is no YAML", () => writeFile(path, "a: [secret"), undefined],
    ["that is a list", () => writeFile(path, "- secret"), undefined],
    ["without the context", () => write({ server: "https://a" }, {}), "nowhere"],
    ["with a cluster over http", () => write({ server: "http://a" }, {}), undefined],
    ["with a cluster that skips verification", () => write({ server: "https://a" }, {}), "there"],
    [
      "with a plugin that fails",
      () => write({ server: "https://a" }, plugin("process.exit(1)")),
      undefined,
    ],
    [
      "with a plugin that says something else",
      () => write({ server: "https://a" }, plugin("console.log('secret')")),
      undefined,
    ],
  ])("is refused %s, without a secret in the words", async (_, prepare, context) => {
    await prepare();
    const reading = readKubeconfig(path, context, {});
    await expect(reading).rejects.toMatchObject({ name: "OperatorError" });
    await expect(reading).rejects.not.toThrow(/secret/);
  });

  test("is refused with every fault and its place", async () => {
    await write({ server: "http://a" }, {});
    const reading = readKubeconfig(path, undefined, {});
    await expect(reading).rejects.toThrow(`${path}: server: Invalid URL`);
  });
});
