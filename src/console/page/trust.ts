import { html } from "hono/html";
import {
  type Cluster,
  Cluster_Delivery as Delivery,
  type GetStatusResponse,
} from "../../gen/rampart/status/v1/status_pb.ts";
import { badge, count, foreign, instant, type Markup, nowOf, shortHex } from "./format.ts";

/** The roots of the trust bundle, and the clusters that have it. */
export function trust(status: GetStatusResponse): Markup {
  const now = nowOf(status);
  const roots = status.trustBundle?.roots ?? [];
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label="Roots, table"><table>
      <thead><tr><th scope="col">Root</th><th scope="col">SHA-256</th><th scope="col">Valid from</th><th scope="col">Valid until</th></tr></thead>
      <tbody>${roots.map(
        ({
          subject,
          fingerprint,
          notBefore,
          notAfter,
        }) => html`<tr><th scope="row">${foreign(subject || "(no name)")}</th>
        <td>${shortHex(fingerprint, 16)}</td><td>${instant(notBefore, now)}</td><td>${instant(notAfter, now)}</td></tr>`,
      )}</tbody></table></div>
    ${roots.length === 0 ? html`<p>The trust bundle is empty.</p>` : ""}
    <h3>In the clusters</h3>
    ${clustersTable(status.clusters, now)}`;
}

function clustersTable(clusters: readonly Cluster[], now: Date): Markup {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Clusters, table"><table>
    <thead><tr><th scope="col">Cluster</th><th scope="col">Trust bundle</th><th scope="col" class="number">Namespaces</th><th scope="col">Everywhere since</th></tr></thead>
    <tbody>${clusters.map((cluster) => clusterRow(cluster, now))}</tbody></table></div>`;
}

const deliveries: Readonly<Record<number, Markup>> = {
  [Delivery.ELSEWHERE]: html`<span class="quiet">not delivered from here; <code>rampart distribute</code> in the cluster may do it</span>`,
  [Delivery.UNKNOWN]: html`<span class="quiet">delivered from here, but not known to this process yet</span>`,
  [Delivery.COMPLETE]: badge("good", "current"),
  [Delivery.PENDING]: badge("warn", "on its way"),
  [Delivery.FAILED]: badge("bad", "failed"),
};

function clusterRow(cluster: Cluster, now: Date): Markup {
  const { name, delivery, namespaces, delivered, since, fault } = cluster;
  const isKnown = delivery >= Delivery.COMPLETE;
  return html`<tr><th scope="row">${foreign(name)}</th>
    <td>${deliveries[delivery] ?? ""} ${fault === "" ? "" : foreign(fault)}</td>
    <td class="number">${isKnown ? html`${count(delivered)} of ${count(namespaces)}` : html`<span class="quiet">unknown</span>`}</td>
    <td>${instant(since, now)}</td></tr>`;
}
