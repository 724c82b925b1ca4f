// SPDX-License-Identifier: Apache-2.0
// metrics.js - the text of /metrics to values, and percentiles of its histograms.

// Map from metric name to a list of {labels, value}.
export function parseMetrics(text) {
  const out = new Map();
  for (const line of text.split("\n")) {
    const match = /^([a-z_]+)(?:\{([^}]*)\})? (\S+)$/.exec(line);
    if (!match) continue;
    const labels = {};
    for (const [, name, value] of (match[2] || "").matchAll(/([a-z]+)="((?:[^"\\]|\\.)*)"/g)) labels[name] = value;
    if (!out.has(match[1])) out.set(match[1], []);
    out.get(match[1]).push({labels, value: Number(match[3])});
  }
  return out;
}

// Cumulative counts of a histogram by upper bound, over all models.
export function buckets(metrics, name) {
  const sums = new Map();
  for (const {labels, value} of metrics.get(`${name}_bucket`) || []) {
    const bound = labels.le === "+Inf" ? Infinity : Number(labels.le);
    sums.set(bound, (sums.get(bound) || 0) + value);
  }
  return [...sums].sort((a, b) => a[0] - b[0]);
}

// The value below which `share` of the observations between two readings are; null: there were none.
export function percentile(before, after, share) {
  const earlier = new Map(before);
  const counts = after.map(([bound, n]) => [bound, n - (earlier.get(bound) || 0)]);
  const total = counts.length > 0 ? counts[counts.length - 1][1] : 0;
  if (total <= 0) return null;
  let [low, below] = [0, 0];
  for (const [bound, n] of counts) {
    if (n >= share * total) {
      if (bound === Infinity) return low;
      return n > below ? low + ((bound - low) * (share * total - below)) / (n - below) : bound;
    }
    [low, below] = [bound, n];
  }
  return low;
}
