// Zooms into the frame that was clicked, and marks frames that a search finds.
(function () {
  "use strict";
  var svg = document.querySelector("svg"), frames = Array.from(svg.querySelectorAll("g[data-d]"));
  var margin = 10, full = 1200 - 2 * margin, letter = 6.6;
  frames.forEach(function (g) {
    g.at = { x: +g.dataset.x, w: +g.dataset.w, d: +g.dataset.d };
    g.label = g.querySelector("title").textContent.split("\n")[0];
    g.setAttribute("tabindex", "0");
    g.addEventListener("click", function () { show(g.at); });
    g.addEventListener("keydown", function (e) { if (e.key === "Enter") show(g.at); });
  });
  function show(to) {
    frames.forEach(function (g) {
      var above = g.at.d < to.d && g.at.x <= to.x + 1e-9 && g.at.x + g.at.w >= to.x + to.w - 1e-9;
      var x = above ? 0 : (g.at.x - to.x) / to.w, w = above ? 1 : g.at.w / to.w;
      var visible = above || (g.at.d >= to.d && x > -1e-6 && x + w < 1 + 1e-6);
      g.style.display = visible ? "" : "none";
      if (!visible) return;
      var rect = g.querySelector("rect"), text = g.querySelector("text");
      rect.setAttribute("x", margin + x * full);
      rect.setAttribute("width", Math.max(w * full - 0.5, 0.2));
      rect.setAttribute("opacity", above ? 0.5 : 1);
      var room = Math.floor((w * full - 6) / letter);
      if (!text && room > 2) {
        text = document.createElementNS("http://www.w3.org/2000/svg", "text");
        text.setAttribute("y", +rect.getAttribute("y") + 13);
        g.appendChild(text);
      }
      if (text) {
        text.setAttribute("x", margin + x * full + 3);
        text.textContent = room > 2 ? (g.label.length <= room ? g.label : g.label.slice(0, room - 1) + "…") : "";
      }
    });
  }
  document.getElementById("find").addEventListener("input", function (e) {
    var wanted = e.target.value.toLowerCase(), hits = 0;
    frames.forEach(function (g) {
      var found = wanted !== "" && g.label.toLowerCase().indexOf(wanted) >= 0;
      g.classList.toggle("found", found);
      if (found) hits++;
    });
    document.getElementById("hits").textContent = wanted === "" ? "" : hits + " frames";
  });
})();
