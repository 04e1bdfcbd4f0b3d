import type { webcrypto } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { messageOf, OperatorError } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/events.ts";
import type { Hash } from "../../tlog/merkle.ts";
import { createCosigner } from "../../tlog/note/checkpoint.ts";
import { generateEd25519, rawPublicKey, type VerifierKey } from "../../tlog/note/verifier-key.ts";
import {
  cosignOrRefuse,
  maximumRequestOctets,
  type Witness,
  type WitnessMemory,
} from "../../tlog/witness/witness.ts";
import type { ListenAddress } from "../files/places.ts";
import { makeFolder, openDatabase, ownerOf } from "../files/store-owner.ts";

interface WitnessParts {
  /** Holds its key and what it has cosigned. Whoever copies it can cosign in its name. */
  readonly directory: string;
  readonly name: string;
  readonly logs: readonly VerifierKey[];
  readonly listen: ListenAddress;
  readonly log: OperationLog;
  readonly clock: () => Date;
}

const requestMilliseconds = 5000;

/** Starts a witness over plain HTTP; TLS is a proxy's. @throws OperatorError when another one uses its folder. */
export async function startWitness(parts: WitnessParts) {
  await makeFolder(parts.directory, await ownerOf(parts.directory));
  const database = databaseIn(join(parts.directory, "witness.sqlite"));
  const { privateKey, publicKey } = await keyIn(database);
  const cosigner = createCosigner(parts.name, privateKey, publicKey);
  const witness = { logs: parts.logs, memory: memoryIn(database), cosigner };
  const server = createServer({ requestTimeout: requestMilliseconds }, (request, response) => {
    respond(request, response, witness, parts).catch((error: unknown) => {
      parts.log.operation({ event: "witness-fault", level: "error", detail: messageOf(error) });
      response.writeHead(500).end();
    });
  });
  server.maxConnections = 256;
  const { host, port } = parts.listen;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(port, host, resolve);
  });
  return {
    key: cosigner.key,
    address: server.address() as AddressInfo,
    close: async (): Promise<void> => {
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
      database.close();
    },
  };
}

async function respond(
  request: IncomingMessage,
  response: ServerResponse,
  witness: Witness,
  { log, clock }: WitnessParts,
): Promise<void> {
  if (request.url !== "/add-checkpoint") return void response.writeHead(404).end();
  if (request.method !== "POST") return void response.writeHead(405).end();
  const text = await readText(request);
  if (text === undefined) return void response.writeHead(413, { connection: "close" }).end();
  const { status, contentType, body } = await cosignOrRefuse(text, witness, clock());
  log.operation({ event: "add-checkpoint", level: status === 200 ? "info" : "warning", status });
  response.writeHead(status, { "content-type": contentType }).end(body);
}

async function readText(request: IncomingMessage): Promise<string | undefined> {
  const pieces: Buffer[] = [];
  let length = 0;
  for await (const piece of request) {
    length += piece.length;
    if (length > maximumRequestOctets) return undefined;
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString("utf8");
}

function databaseIn(path: string): DatabaseSync {
  try {
    return openDatabase(
      path,
      `CREATE TABLE IF NOT EXISTS cosigned (
        origin TEXT PRIMARY KEY, size INTEGER NOT NULL, root BLOB NOT NULL) STRICT;
      CREATE TABLE IF NOT EXISTS key (id INTEGER PRIMARY KEY, pkcs8 BLOB NOT NULL, raw BLOB NOT NULL)
        STRICT;`,
    );
  } catch (error) {
    throw new OperatorError(`the witness in ${path} does not open: ${messageOf(error)}`);
  }
}

function memoryIn(database: DatabaseSync): WitnessMemory {
  const read = database.prepare("SELECT size, root FROM cosigned WHERE origin = ?");
  const insert = database.prepare("INSERT OR IGNORE INTO cosigned VALUES (?, ?, ?)");
  const update = database.prepare(
    "UPDATE cosigned SET size = ?, root = ? WHERE origin = ? AND size = ?",
  );
  return {
    latest: (origin) => read.get(origin) as { size: number; root: Hash } | undefined,
    advance: (origin, from, { size, root }) => {
      const isNew = from === 0 && insert.run(origin, size, root).changes === 1;
      return isNew || update.run(size, root, origin, from).changes === 1;
    },
  };
}

interface WitnessKey {
  readonly privateKey: webcrypto.CryptoKey;
  readonly publicKey: Hash;
}

/** The key of a witness, made at its first start. */
async function keyIn(database: DatabaseSync): Promise<WitnessKey> {
  const stored = database.prepare("SELECT pkcs8, raw FROM key").get() as
    | { pkcs8: Hash; raw: Hash }
    | undefined;
  if (stored) {
    const privateKey = await crypto.subtle.importKey("pkcs8", stored.pkcs8, "Ed25519", false, [
      "sign",
    ]);
    return { privateKey, publicKey: stored.raw };
  }
  const pair = await generateEd25519();
  const pkcs8 = new Uint8Array(await crypto.subtle.exportKey("pkcs8", pair.privateKey));
  const publicKey = await rawPublicKey(pair.publicKey);
  database.prepare("INSERT INTO key VALUES (1, ?, ?)").run(pkcs8, publicKey);
  return { privateKey: pair.privateKey, publicKey };
}
