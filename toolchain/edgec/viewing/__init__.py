"""A program or module to one HTML page that shows what is in it, alone or beside another."""

from edgec.viewing.comparing import compared
from edgec.viewing.graph import Graph, Node, graph_of_module, graph_of_program
from edgec.viewing.page import page

__all__ = ["Graph", "Node", "compared", "graph_of_module", "graph_of_program", "page"]
