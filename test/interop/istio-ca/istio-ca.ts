import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import {
  createTokenKey,
  jwksOf,
  mintAccountToken,
  type TokenKey,
} from "../../testkit/callers/tokens.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { type Child, startChild } from "../../testkit/programs/child-process.ts";

const issuer = "https://cluster.test";

/** Istio's CA in its own process, with an issuer of tokens beside it. */
export class IstioCa {
  readonly #program: string;
  readonly #folder: string;
  readonly #port: number;
  readonly #issuer: Server;
  readonly #key: TokenKey;
  #child: Child | undefined;

  private constructor(program: string, folder: string, port: number, parts: [Server, TokenKey]) {
    this.#program = program;
    this.#folder = folder;
    this.#port = port;
    [this.#issuer, this.#key] = parts;
  }

  /** @param folder The place of its root, its authority and its log. */
  static async start(program: string, folder: string): Promise<IstioCa> {
    const [port = 0] = await freePorts(1);
    // Istio's authenticator accepts no other algorithm.
    const key = await createTokenKey("RS256", "key-1");
    const ca = new IstioCa(program, folder, port, [await serveKeys(key), key]);
    await ca.resume();
    return ca;
  }

  /** The address by which a pod names istiod behind a forwarded port. */
  get address(): string {
    return `localhost:${this.#port}`;
  }

  get rootFile(): string {
    return join(this.#folder, "root-cert.pem");
  }

  /** Restarts it with the same authority on the same port. */
  async resume(): Promise<void> {
    const { port } = this.#issuer.address() as AddressInfo;
    const flags = {
      listen: `127.0.0.1:${this.#port}`,
      issuer,
      jwks: `http://127.0.0.1:${port}/jwks`,
      longest: "1h",
      "root-file": this.rootFile,
      "authority-file": join(this.#folder, "authority.pem"),
    };
    const values = Object.entries(flags).map(([name, value]) => `-${name}=${value}`);
    const child = startChild(this.#program, values, { logFile: join(this.#folder, "istio.log") });
    this.#child = child;
    await new Promise<void>((resolve) => child.onLine(() => resolve()));
  }

  async pause(): Promise<void> {
    await this.#child?.end();
  }

  /** Writes a token for `mesh:<name>`, signed by the issuer's key or by another with the same name. */
  async writeToken(file: string, name: string, isForged = false): Promise<void> {
    const key = isForged ? await createTokenKey("RS256", "key-1") : this.#key;
    await writeFile(file, await mintAccountToken(key, issuer, `mesh:${name}`, new Date()));
  }

  async end(): Promise<void> {
    await this.pause();
    this.#issuer.close();
  }
}

async function serveKeys(key: TokenKey): Promise<Server> {
  const server = createServer((_request, response) => {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(jwksOf(key)));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}
