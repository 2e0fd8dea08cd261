// Weight-stationary processing element with two weight registers. The shadow register is a link of the column's weight
// chain: a weight moves down until it reaches the row it is meant for. The first input of a fold swaps it in, so the
// chain may already carry the next fold's weights right behind that wave.
module pe_ws #(
    parameter int ROW = 0,
    parameter int DEST_W = 4,
    parameter int A_W = 8,
    parameter int B_W = 8,
    parameter int ACC_W = 32
) (
    input  logic                     clk,
    input  logic                     rst,
    input  logic                     fresh_i,
    input  logic        [DEST_W-1:0] dest_i,
    input  logic signed [   B_W-1:0] weight_i,
    output logic                     fresh_o,
    output logic        [DEST_W-1:0] dest_o,
    output logic signed [   B_W-1:0] weight_o,
    input  logic                     valid_i,
    input  logic                     first_i,
    input  logic signed [   A_W-1:0] a_i,
    output logic                     valid_o,
    output logic                     first_o,
    output logic signed [   A_W-1:0] a_o,
    input  logic signed [ ACC_W-1:0] sum_i,
    output logic signed [ ACC_W-1:0] sum_o
);
    logic signed [B_W-1:0] active, weight;
    assign weight = first_i ? weight_o : active;  // weight_o is the shadow register

    always_ff @(posedge clk) begin
        {valid_o, first_o} <= rst ? '0 : {valid_i, first_i};
        a_o <= a_i;
        if (valid_i) begin
            active <= weight;
            sum_o  <= sum_i + ACC_W'(a_i) * ACC_W'(weight);
        end
        fresh_o <= !rst && fresh_i && dest_i > DEST_W'(ROW);
        if (fresh_i) begin
            weight_o <= weight_i;
            dest_o   <= dest_i;
        end
    end
endmodule
