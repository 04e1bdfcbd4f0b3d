import { duplexPair } from "node:stream";
import { connect, createSecureContext, TLSSocket as Socket, type TLSSocket } from "node:tls";
import type { LeafUnder } from "./leaf-under.ts";

/**
 * Has two workloads with this certificate authenticate each other by OpenSSL, in memory. OpenSSL takes an anchor
 * that is not self-signed only where it is told to, as its import warns.
 *
 * @returns Why one of them refuses the other, or `undefined`.
 */
export async function faultOfHandshake(leaf: LeafUnder): Promise<string | undefined> {
  const { leafPem, intermediatesPem, rootPem, keyPem } = leaf;
  const secureContext = createSecureContext({
    cert: leafPem + intermediatesPem,
    key: keyPem,
    ca: rootPem,
    allowPartialTrustChain: true,
  });
  const [one, other] = duplexPair();
  const required = { secureContext, requestCert: true, rejectUnauthorized: true };
  const server = new Socket(one, { ...required, isServer: true });
  const client = connect({ ...required, socket: other, checkServerIdentity: () => undefined });
  const faults = await Promise.all([faultOf(server, "server"), faultOf(client, "client")]);
  server.destroy();
  client.destroy();
  return faults.find((fault) => fault !== undefined);
}

/** A client of TLS 1.3 hears of a refusal with the first octet that it reads. */
function faultOf(socket: TLSSocket, role: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    socket.on("error", (error) => resolve(`${role}: ${error.message}`));
    socket.on("close", () => resolve(`${role}: closed`));
    socket.once("data", () => resolve(undefined));
    socket.once(role === "server" ? "secure" : "secureConnect", () => {
      const { authorizationError } = socket;
      if (authorizationError) resolve(`${role}: ${authorizationError}`);
      else socket.write("!");
    });
  });
}
