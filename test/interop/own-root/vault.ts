import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { request } from "node:https";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { type Child, runWell, startChild } from "../../testkit/programs/child-process.ts";

/** The members of an answer of the PKI engine that count here. */
interface VaultData {
  readonly issuer_id?: string;
  readonly certificate?: string;
}

/** Vault's PKI engine as the CA upstream and its transit engine, with an administrator's token. */
export type Vault = Awaited<ReturnType<typeof startVault>>;

export async function startVault(program: string, folder: string) {
  const [key, certificate] = [join(folder, "vault.key"), join(folder, "vault.pem")];
  const kind = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2".split(" ");
  const name = ["-subj", "/CN=vault", "-addext", "subjectAltName=DNS:localhost"];
  await runWell("openssl", ["req", ...kind, ...name, "-keyout", key, "-out", certificate]);
  const token = "hvs.interop";
  const values = ["-token", token, "-certificate", certificate, "-key", key];
  const child = startChild(program, values, { logFile: join(folder, "vault.log") });
  const url = `https://localhost:${await portOf(child)}`;
  const ca = await readFile(certificate, "utf8");
  return {
    url,
    /** The root of its server certificate, PEM. */
    ca,
    token,
    /** Writes to a path below a mount, by default that of the PKI engine. @returns The data of the answer. */
    write: async (path: string, data: object, mount = "pki"): Promise<VaultData> => {
      const headers = { "x-vault-token": token, "content-type": "application/json" };
      const asked = request(`${url}/v1/${mount}/${path}`, { method: "POST", ca, headers });
      asked.end(JSON.stringify(data));
      const [response] = await once(asked, "response");
      const body = await text(response);
      if (response.statusCode >= 300) throw new Error(`${path}: ${response.statusCode} ${body}`);
      return body === "" ? {} : (JSON.parse(body) as { data: VaultData }).data;
    },
    end: () => child.end(),
  };
}

function portOf(child: Child): Promise<number> {
  return new Promise((resolve) => {
    child.onLine((line) => resolve((JSON.parse(line) as { port: number }).port));
  });
}

/** The file with the token, which Rampart reads for each request. */
export async function writeToken(file: string, token: string): Promise<string> {
  await writeFile(file, `${token}\n`);
  return file;
}
