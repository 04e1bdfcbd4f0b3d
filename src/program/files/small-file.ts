import { open as openDescriptor } from "node:fs";
import { open, stat } from "node:fs/promises";
import { Socket } from "node:net";
import { promisify } from "node:util";
import { OperatorError } from "../../foundation/errors.ts";
import { bearerToken } from "../../foundation/headers.ts";

/** The kinds of file that are read, besides regular files and links to them. */
export interface FileKinds {
  /** A pipe, such as `<(kubectl get secret -o yaml)`, keeps a key off the disk. Reading waits for its end. */
  readonly mayBePipe?: boolean;
}

/** Reads small files. */
export const SmallFile = {
  /**
   * Reads a file as text.
   *
   * @throws OperatorError as {@link SmallFile.readOctets}, and for text that is not UTF-8.
   */
  async read(path: string, maximumOctets: number, kinds?: FileKinds): Promise<string> {
    const octets = await SmallFile.readOctets(path, maximumOctets, kinds);
    try {
      return new TextDecoder("utf-8", { fatal: true }).decode(octets);
    } catch {
      throw new OperatorError(`${path} is not text in UTF-8`);
    }
  },

  /** Whether a file has exactly this text; `false` if it cannot be read, or is a pipe or a device. Never rejects. */
  holds: (path: string, text: string): Promise<boolean> =>
    SmallFile.read(path, Buffer.byteLength(text)).then(
      (held) => held === text,
      () => false,
    ),

  /**
   * Reads all of a file. A folder, a device or a longer file is refused.
   *
   * @throws OperatorError that names the file and never quotes it. Its `cause` is the system's error, if any.
   */
  async readOctets(
    path: string,
    maximumOctets: number,
    { mayBePipe = false }: FileKinds = {},
  ): Promise<Uint8Array> {
    try {
      // Before the file is opened, because opening a pipe would wait for its writer.
      const found = await stat(path);
      const isPipe = mayBePipe && found.isFIFO();
      const isShort = found.isFile() && found.size <= maximumOctets;
      const octets = isPipe
        ? await readPipe(path, maximumOctets)
        : isShort && (await readAtMost(path, found.size));
      if (octets) return octets;
    } catch (cause) {
      const code = errorCode(cause) ?? "no reason given";
      const why = code === "ENOENT" ? "does not exist" : `cannot be read: ${code}`;
      throw new OperatorError(`${path} ${why}`, { cause });
    }
    throw new OperatorError(`${path} is not a file of at most ${maximumOctets} octets`);
  },
};

/** The value of `reading` by {@link SmallFile}; `undefined` if it rejects because the file does not exist. */
export async function unlessMissing<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof OperatorError && errorCode(error.cause) === "ENOENT") return undefined;
    throw error;
  }
}

/**
 * Reads a pipe to its end on the event loop: a thread blocked in `read` would keep the process from exiting after a
 * signal.
 */
async function readPipe(path: string, maximumOctets: number): Promise<Uint8Array | undefined> {
  const fd = await promisify(openDescriptor)(path, "r");
  const pipe = new Socket({ fd, readable: true, writable: false });
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of pipe as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > maximumOctets) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Reads up to one octet more than allowed, because the file may grow after its size was read. */
async function readAtMost(path: string, maximumOctets: number): Promise<Uint8Array | undefined> {
  await using file = await open(path);
  const octets = Buffer.alloc(maximumOctets + 1);
  let length = 0;
  for (let read = -1; read !== 0 && length < octets.length; length += read) {
    ({ bytesRead: read } = await file.read(octets, length, octets.length - length, null));
  }
  return length > maximumOctets ? undefined : octets.subarray(0, length);
}

const maximumOctets = 16_384;

/** Reads files that hold a token. */
export const TokenFile = {
  /**
   * Reads the bearer token in a file, without the white space around it. Each call reads it anew, because
   * a kubelet or Vault's agent replaces the file.
   *
   * @throws OperatorError for a file that cannot be read, or holds no token.
   */
  async read(path: string): Promise<string> {
    return requireToken((await SmallFile.read(path, maximumOctets)).trim(), path);
  },

  /** Reads as {@link TokenFile.read} does, and throws as it does, but returns `undefined` for a missing or empty file. */
  async readIfAny(path: string): Promise<string | undefined> {
    const text = await unlessMissing(SmallFile.read(path, maximumOctets));
    const token = text?.trim();
    return token ? requireToken(token, path) : undefined;
  },
};

function requireToken(text: string, path: string): string {
  if (bearerToken.test(text)) return text;
  throw new OperatorError(`${path} must hold a bearer token on one line`);
}

/** The code of an error as text, such as `ENOENT` or one of OpenSSL's; `undefined` for an error without one. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}
