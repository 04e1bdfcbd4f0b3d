import { html } from "hono/html";
import type { ClusterStatus } from "../../status/clusters.ts";
import type { IssuerStatus } from "../../status/issuers.ts";
import type { CaStatus } from "../../status/status.ts";
import {
  badge,
  count,
  distance,
  foreign,
  instant,
  type Markup,
  shortHex,
  stackedInstant,
  table,
} from "./format.ts";

/** Renders the roots of the trust bundle, and how far each cluster has it. */
export function trust({ trustBundle: { roots }, clusters, now }: CaStatus): Markup {
  const rows = roots.map(
    ({
      subject,
      fingerprint,
      notBefore,
      notAfter,
    }) => html`<tr><th scope="row">${foreign(subject || "(no name)")}</th>
        <td>${shortHex(fingerprint, 16)}</td><td>${instant(notBefore, now)}</td><td>${instant(notAfter, now)}</td></tr>`,
  );
  return html`
    ${table("Roots", rootHeading, rows)}
    ${roots.length === 0 ? html`<p>The trust bundle is empty.</p>` : ""}
    <h3>In the clusters</h3>
    ${table(
      "Clusters",
      clusterHeading,
      clusters.map((each) => clusterRow(each, now)),
    )}`;
}

const rootHeading = html`<tr><th scope="col">Root</th><th scope="col">SHA-256</th><th scope="col">Valid from</th><th scope="col">Valid until</th></tr>`;
const clusterHeading = html`<tr><th scope="col">Cluster</th><th scope="col">Trust bundle</th><th scope="col" class="number">Namespaces</th><th scope="col">Everywhere since</th></tr>`;

const deliveries: Readonly<Record<ClusterStatus["delivery"], Markup>> = {
  elsewhere: html`<span class="quiet">not delivered from here; <code>rampart distribute</code> in the cluster may do it</span>`,
  unknown: html`<span class="quiet">delivered from here, but not known to this process yet</span>`,
  complete: badge("good", "current"),
  pending: badge("warn", "on its way"),
  failed: badge("bad", "failed"),
};

function clusterRow({ name, delivery, progress }: ClusterStatus, now: Date): Markup {
  return html`<tr><th scope="row">${foreign(name)}</th>
    <td>${deliveries[delivery]} ${progress?.fault === undefined ? "" : foreign(progress.fault)}</td>
    <td class="number">${progress ? html`${count(progress.delivered)} of ${count(progress.namespaces)}` : html`<span class="quiet">unknown</span>`}</td>
    <td>${instant(progress?.since, now)}</td></tr>`;
}

/** Renders the issuers of tokens, and the state of their keys. */
export function issuers({ issuers, now }: CaStatus): Markup {
  return table(
    "Issuers",
    issuerHeading,
    issuers.map((each) => issuerRow(each, now)),
  );
}

const issuerHeading = html`<tr><th scope="col">Cluster</th><th scope="col">Issuer</th><th scope="col">Keys</th><th scope="col">Known keys</th><th scope="col">Fetched</th></tr>`;

const keyStates: Readonly<Record<NonNullable<IssuerStatus["keys"]>, Markup>> = {
  configured: badge("good", "configured"),
  "not fetched": badge("plain", "not needed yet"),
  fetched: badge("good", "fetched"),
  stale: badge("warn", "older keys serve"),
  unreachable: badge("bad", "unreachable"),
};

const shownKeys = 4;

function issuerRow(issuer: IssuerStatus, now: Date): Markup {
  const { name, cluster, keys, knownKeys, fetchedAt, failure } = issuer;
  const more = knownKeys.length - shownKeys;
  return html`<tr><th scope="row">${foreign(cluster)}</th><td class="wrap">${foreign(name)}</td>
    <td class="state-of">${keys ? keyStates[keys] : ""}${failure ? html`<div class="quiet">${foreign(failure.detail)}, ${distance(failure.at, now)}</div>` : ""}</td>
    <td>${knownKeys.length === 0 ? html`<span class="quiet">none</span>` : knownKeys.slice(0, shownKeys).map(({ keyId = "", algorithms }) => html`<div><code title="${keyId}">${keyId === "" ? "no key id" : keyId.slice(0, 16)}</code> <span class="quiet">${algorithms.join(", ")}</span></div>`)}
      ${more > 0 ? html`<div class="quiet">and ${more} more</div>` : ""}</td>
    <td>${stackedInstant(fetchedAt, now)}</td></tr>`;
}
