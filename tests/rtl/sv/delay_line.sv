// DEPTH registers in a row; DEPTH 0 is a wire.
module delay_line #(
    parameter int WIDTH = 8,
    parameter int DEPTH = 1
) (
    input  logic             clk,
    input  logic             rst,
    input  logic [WIDTH-1:0] d,
    output logic [WIDTH-1:0] q
);
    if (DEPTH == 0) begin : g_wire
        assign q = d;
    end else begin : g_stages
        logic [WIDTH-1:0] stage[DEPTH];
        always_ff @(posedge clk) begin
            for (int i = 0; i < DEPTH; i++) begin
                if (rst) stage[i] <= '0;
                else stage[i] <= (i == 0) ? d : stage[i-1];
            end
        end
        assign q = stage[DEPTH-1];
    end
endmodule
