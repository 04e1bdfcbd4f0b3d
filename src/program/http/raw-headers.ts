import type { HeaderFields } from "../../foundation/http/header-fields.ts";

/**
 * The headers of a request, with every value of a repeated one. Node's own object keeps only the first
 * `authorization`, and a proxy in front may have verified the second.
 */
export function headersOf(rawHeaders: readonly string[]): Headers {
  const headers = new Headers();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    if (!name.startsWith(":")) headers.append(name, rawHeaders[i + 1] ?? "");
  }
  return headers;
}

/**
 * The same fields of an HTTP/2 request, whose names are in lower case, without `Headers`: that costs as
 * much as writing a certificate does.
 */
export function fieldsOf(rawHeaders: readonly string[]): HeaderFields {
  return {
    get: (name) => {
      let value: string | null = null;
      for (let i = 0; i < rawHeaders.length; i += 2) {
        if (rawHeaders[i] !== name) continue;
        const one = withoutSpace(rawHeaders[i + 1] ?? "");
        value = value === null ? one : `${value}, ${one}`;
      }
      return value;
    },
  };
}

/** Fetch, "normalize": a value has no white space around it. */
const withoutSpace = (value: string): string => value.replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, "");
